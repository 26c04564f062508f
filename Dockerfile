# Tilewright with its cache warm: docker build -t tilewright . && docker run --rm -v "$PWD:/work" tilewright run model.tflite
FROM python:3.12-slim
COPY . /opt/tilewright
RUN pip install --no-cache-dir --editable '/opt/tilewright[compile]'
ENV TILEWRIGHT_CACHE=/opt/tilewright-cache
RUN tilewright run /opt/tilewright/examples/digits/digits.onnx && tilewright cache clear artifacts \
    && chmod -R a+rX /opt/tilewright-cache
WORKDIR /work
ENTRYPOINT ["tilewright"]
