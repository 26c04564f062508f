"""The command line: ``app`` puts together what each module registers, one command or group each."""
