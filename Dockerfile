# csm on a CPU. Build the wheel first (make dist), then:
#   docker build --tag concrete-score .
#   docker run --rm --volume "$PWD:/tables" concrete-score fit clinic.csv --out runs/clinic
FROM python:3.11-slim

# An index of PyTorch's CPU builds, where you have one, keeps gigabytes of CUDA libraries out of the image:
#   docker build --build-arg TORCH_INDEX=URL …
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MPLCONFIGDIR=/tmp/matplotlib

COPY constraints.txt dist/*.whl /tmp/install/
RUN if [ -n "$TORCH_INDEX" ]; then pip install --index-url "$TORCH_INDEX" -c /tmp/install/constraints.txt torch; fi \
    && pip install -c /tmp/install/constraints.txt /tmp/install/*.whl \
    && rm -r /tmp/install \
    && useradd --create-home --uid 1000 csm

USER csm
WORKDIR /tables
ENTRYPOINT ["csm"]
CMD ["--help"]
