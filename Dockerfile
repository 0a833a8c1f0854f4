# One file, one target for each image: broker (which is also the controller), operator, pipeline.
#   make images            builds all three with buildah, podman or docker
# BASE lets a site bring its own Debian 12 with Python 3.11 or newer; nothing is fetched when a container runs.
# What changes seldom comes first: a new version of the product is one small layer on top of its dependencies.
ARG BASE=python:3.11-slim-bookworm

# ------------------------------------------------------------------------------------------------ dependencies
# Lists of what the three pyproject.toml ask for. Stages below copy a list: another change of those files leaves their
# layers alone. The connector names Spark's version, and PySpark has to be of the same one.
FROM ${BASE} AS requirements
COPY pyproject.toml /
COPY operator/pyproject.toml /operator/
COPY pipeline/pyproject.toml pipeline/connector.xml /pipeline/
RUN printf '%s\n' 'import re, tomllib' \
      'def read(path): return tomllib.load(open(path, "rb"))' \
      'def needs(path): return read(path)["tool"]["hatch"]["metadata"]["hooks"]["custom"]["requires"]' \
      'def write(name, lines): print(*lines, sep="\n", file=open(f"/{name}.txt", "w"))' \
      'project = read("/pyproject.toml")["project"]' \
      'broker, extras = project["dependencies"], project["optional-dependencies"]' \
      'operator, pipeline = map(needs, ("/operator/pyproject.toml", "/pipeline/pyproject.toml"))' \
      'spark = re.search(r"name=\"spark-sql-kafka\S+ rev=\"(.+?)\"", open("/pipeline/connector.xml").read())[1]' \
      'write("broker", broker + extras["compaction"] + extras["security"] + extras["traces"])' \
      'write("operator", broker + [one for one in operator if not one.startswith("odradek")])' \
      'write("pipeline", broker + [one for one in pipeline if not one.startswith("odradek")] + [f"pyspark=={spark}"])' | python3

# Images stand on these stages instead of copying from them: a copy of Spark is read whole at every build, to see whether
# it has changed.
FROM ${BASE} AS broker-dependencies
COPY --from=requirements /broker.txt /opt/odradek/requirements.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/odradek \
 && /opt/odradek/bin/python -m pip install --quiet --disable-pip-version-check -r /opt/odradek/requirements.txt \
 && /opt/odradek/bin/python -m pip uninstall --quiet --yes pip setuptools

FROM ${BASE} AS operator-dependencies
COPY --from=requirements /operator.txt /opt/odradek/requirements.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/odradek \
 && /opt/odradek/bin/python -m pip install --quiet --disable-pip-version-check -r /opt/odradek/requirements.txt \
 && /opt/odradek/bin/python -m pip uninstall --quiet --yes pip setuptools

# Spark with its Kafka connector: PySpark carries Spark's jars and the client of Maven's repositories, Ivy.
FROM ${BASE} AS java
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless tini >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log /usr/share/doc /usr/share/man

FROM java AS pipeline-dependencies
COPY --from=requirements /pipeline.txt /opt/odradek/requirements.txt
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/odradek \
 && /opt/odradek/bin/python -m pip install --quiet --disable-pip-version-check setuptools -r /opt/odradek/requirements.txt \
 && /opt/odradek/bin/python -m pip uninstall --quiet --yes pip setuptools \
 && ln -s "$(/opt/odradek/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/odradek/spark \
 && rm -rf /opt/odradek/spark/examples /opt/odradek/spark/data
COPY pipeline/connector.xml /opt/odradek/
RUN java -Divy.default.ivy.user.dir=/tmp/ivy -jar /opt/odradek/spark/jars/ivy-*.jar -warn -ivy /opt/odradek/connector.xml -confs default \
      -types jar bundle -retrieve '/opt/odradek/spark/jars/[artifact]-[revision].[ext]' \
 && rm -rf /tmp/ivy && ls /opt/odradek/spark/jars/spark-sql-kafka-* /opt/odradek/spark/jars/spark-token-provider-kafka-* >/dev/null

# ---------------------------------------------------------------------------------------------------- product
# Each image takes its own distributions only, from a prefix that is a layer of its own. Their scripts name the
# environment's Python.
FROM ${BASE} AS broker-product
RUN python3 -m venv /opt/odradek
WORKDIR /source
COPY pyproject.toml LICENSE ./
COPY broker broker
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/odradek/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --prefix /product .

FROM broker-product AS operator-product
COPY operator operator
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/odradek/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --prefix /product ./operator

FROM broker-product AS pipeline-product
COPY pipeline pipeline
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/odradek/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --prefix /product ./pipeline

# ----------------------------------------------------------------------------------------------------- images
FROM broker-dependencies AS broker
# The user has an entry, because programs ask for its name. Kubernetes gets its number, to see that it is not root.
RUN groupadd --gid 10001 odradek && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --no-log-init odradek \
 && install -d -o 10001 -g 10001 /data
COPY --from=broker-product /product /opt/odradek
USER 10001:10001
VOLUME /data
EXPOSE 9092 9093 9644
ENV PATH=/opt/odradek/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["/opt/odradek/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9644/healthz', timeout=2)"]
ENTRYPOINT ["odradek"]
CMD ["start", "--listen", "0.0.0.0:9092", "--data", "/data", "--admin", "0.0.0.0:9644"]
ARG VERSION=dev REVISION=unknown
LABEL org.opencontainers.image.title="odradek broker" \
      org.opencontainers.image.description="Broker and controller of a distributed log that speaks Apache Kafka's wire protocol" \
      org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.vendor="odradek" \
      org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}"

FROM operator-dependencies AS operator
RUN groupadd --gid 10001 odradek && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --no-log-init odradek
COPY --from=operator-product /product /opt/odradek
USER 10001:10001
EXPOSE 8080
ENV PATH=/opt/odradek/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["/opt/odradek/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["odradek-operator"]
ARG VERSION=dev REVISION=unknown
LABEL org.opencontainers.image.title="odradek operator" \
      org.opencontainers.image.description="Makes and keeps Odradek's clusters, topics and consumer groups on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.vendor="odradek" \
      org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}"

FROM pipeline-dependencies AS pipeline
# 185 is the user that Spark's own image has; charts and pod templates of others name it.
RUN groupadd --gid 185 spark && useradd --uid 185 --gid 185 --no-create-home --home-dir /tmp --no-log-init spark
COPY --from=pipeline-product /product /opt/odradek
# Jobs have a path without the version of Python: local:///opt/odradek/jobs/word_count.py
RUN ln -s "$(/opt/odradek/bin/python -c 'import odradek_pipeline.jobs as jobs; print(jobs.__path__[0])')" /opt/odradek/jobs
USER 185:185
WORKDIR /tmp
# 4040 the driver's pages, 7078 and 7079 what executors talk to
EXPOSE 4040 7078 7079
ENV PATH=/opt/odradek/bin:/opt/odradek/spark/bin:/usr/local/bin:/usr/bin:/bin SPARK_HOME=/opt/odradek/spark \
    PYSPARK_PYTHON=/opt/odradek/bin/python PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The JVM that runs is the health of a driver or executor: Spark ends it when it has failed.
HEALTHCHECK NONE
ENTRYPOINT ["tini", "-g", "--", "odradek-pipeline"]
ARG VERSION=dev REVISION=unknown
LABEL org.opencontainers.image.title="odradek pipeline" \
      org.opencontainers.image.description="Spark 4.0.0 with its Kafka connector and Odradek's jobs: driver and executor of Spark on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.vendor="odradek" \
      org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}"
