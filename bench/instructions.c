/* A plugin of qemu's that counts guest instructions, and writes the count to the error stream at each getppid().
 * qemu's packages come without the header: what is used of it is declared here. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
typedef void translated(uint64_t id, struct qemu_plugin_tb *block);
typedef void called(uint64_t id, unsigned cpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                    uint64_t, uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated *function);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int add, void *to, uint64_t value);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id, called *function);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

EXPORT int qemu_plugin_version = 1;
enum { GETPPID = 64 }; /* on 32-bit ARM */
static uint64_t executed;

static void translate(uint64_t id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &executed, qemu_plugin_tb_n_insns(block));
}

static void call(uint64_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                 uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  if (number == GETPPID) fprintf(stderr, "%" PRIu64 "\n", executed);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int count, char **arguments) {
  (void)info, (void)count, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
  qemu_plugin_register_vcpu_syscall_cb(id, call);
  return 0;
}
