# Stage 1 builds the program and lays out what it needs; stage 2 holds that and nothing else: no shell, no
# package manager, no compiler. It runs as a user that owns nothing but its volume. tests/container/run.sh
# builds stage 2 from this file and runs it.
FROM docker.io/library/rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY src ./src
COPY migrations ./migrations
COPY config ./config
# The manifest names tests and benches; a build needs their files to exist, not to compile.
RUN grep -oE '"(tests|benches)/[^"]+"' Cargo.toml | tr -d '"' | while read -r file; do \
        mkdir -p "$(dirname "$file")" && echo 'fn main() {}' > "$file"; \
    done && \
    cargo build --release --locked --bin hookledger && \
    config/image-root.sh target/release/hookledger /out

FROM scratch
COPY --from=build /out /
# The volume takes its owner from here.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME ["/data"]
ENV HOOK_DB=/data/webhook.db \
    HOOKLEDGER_LISTEN=0.0.0.0:8080 \
    HOOKLEDGER_ADMIN_LISTEN=127.0.0.1:8081 \
    PATH=/usr/local/bin
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/hookledger", "health", "--live"]
ENTRYPOINT ["/usr/local/bin/hookledger"]
CMD ["serve"]
