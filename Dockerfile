# Stage 1 builds the program; stage 2 holds it, the certificate roots it verifies TLS with, and no
# compiler. It runs as a user that owns nothing but its volume.
FROM docker.io/library/rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY src ./src
COPY migrations ./migrations
COPY config ./config
# The manifest names the integration tests; a build needs the file to exist, not to compile.
RUN mkdir -p tests/it && echo 'fn main() {}' > tests/it/main.rs && \
    cargo build --release --locked --bin hookledger && \
    mkdir -p /out/data && cp target/release/hookledger /out/hookledger

FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/hookledger /usr/local/bin/hookledger
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME ["/data"]
ENV HOOK_DB=/data/webhook.db \
    HOOKLEDGER_LISTEN=0.0.0.0:8080 \
    HOOKLEDGER_ADMIN_LISTEN=127.0.0.1:8081
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/hookledger", "health", "--live"]
ENTRYPOINT ["/usr/local/bin/hookledger"]
CMD ["serve"]
