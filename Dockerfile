# The gateway with its dashboard. Linted by hadolint, but neither built nor run by the project's tests: no container engine is
# to be had there. What it installs, how it starts and what its health check asks are tested without one.
#
#   docker build --tag demur .
#   docker run --rm --read-only --tmpfs /tmp --volume demur:/data --publish 127.0.0.1:8080:8080 demur
#
# Without an upstream a simulated model answers: add --env DEMUR_GATEWAY_UPSTREAM_URL=https://api.openai.com for a real one.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/demur \
    && /opt/demur/bin/pip install --no-cache-dir '.[gateway,postgres,otel]'

FROM python:3.11-slim
COPY --from=build /opt/demur /opt/demur
# The log, its keys and its checkpoints: the one place that is written to, beside /tmp.
RUN mkdir /data && chown 10001:10001 /data
ENV PATH="/opt/demur/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DEMUR_GATEWAY_LISTEN_HOST=0.0.0.0 \
    DEMUR_GATEWAY_LISTEN_PORT=8080 \
    DEMUR_GATEWAY_STORE_URL=/data
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["demur"]
CMD ["gateway"]
