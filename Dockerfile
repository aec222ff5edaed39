# The image of the chart helm/cks-admission.
#   docker build -t cks-admission .
# PYTHON names the base image; with a digest (python:3.13-slim@sha256:...) a build is repeatable to the byte of its base.
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# What builds the project itself, hatchling, stands in the development lock.
COPY requirements/ requirements/
RUN python -m venv /build && /build/bin/pip install --require-hashes --only-binary :all: -r requirements/dev.txt
# Wheels only, so that nothing is compiled here: a package without one for this platform ends the build.
RUN python -m venv --without-pip /opt/cks-admission \
    && pip --python /opt/cks-admission install --require-hashes --only-binary :all: -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY certs/ certs/
COPY cks_admission/ cks_admission/
COPY docs/refused/ docs/refused/
COPY policies/ policies/
COPY webhook/ webhook/
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/cks-admission install --no-deps --no-index /wheels/*.whl \
    && /opt/cks-admission/bin/cks-admission --version

FROM ${PYTHON}
COPY --from=build /opt/cks-admission /opt/cks-admission
# The bytecode was compiled when the packages were installed, and the root file system is read-only.
ENV PATH=/opt/cks-admission/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# The configuration and all that it names is mounted below this folder.
WORKDIR /etc/cks-admission
USER 65532:65532
EXPOSE 9443 8081
# Kubernetes asks /livez and /readyz.
HEALTHCHECK NONE
ENTRYPOINT ["cks-admission"]
CMD ["serve"]
