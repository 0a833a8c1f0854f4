# One file, one target for each image. BASE lets a site bring its own Python image.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY broker broker
COPY operator operator
COPY pipeline pipeline
RUN python3 -m venv /opt/odradek \
 && /opt/odradek/bin/python -m pip install --no-cache-dir --disable-pip-version-check . \
 && /opt/odradek/bin/python -m pip uninstall --yes --quiet pip setuptools \
 && /opt/odradek/bin/python -c 'import compileall; compileall.compile_dir("/opt/odradek", quiet=1)'

FROM ${BASE} AS broker
LABEL org.opencontainers.image.title="odradek broker" \
      org.opencontainers.image.description="A distributed log that speaks Apache Kafka's wire protocol" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/odradek /opt/odradek
# A numeric user, so that Kubernetes can check that it is not root.
RUN mkdir -p /data && chown 10001:10001 /data
USER 10001:10001
VOLUME /data
EXPOSE 9092 9644
ENV PATH=/opt/odradek/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["/opt/odradek/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9644/healthz', timeout=2)"]
ENTRYPOINT ["odradek"]
CMD ["start", "--listen", "0.0.0.0:9092", "--data", "/data", "--admin", "0.0.0.0:9644"]
