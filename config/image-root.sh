#!/bin/sh
# Lays out everything that the image holds: the program, the libraries it is linked with and their loader,
# the certificate roots it verifies TLS with, a user, an empty /data. No shell, no package manager.
#
#   config/image-root.sh PROGRAM FOLDER
#
# The libraries are the machine's own (glibc finds names without further files since 2.34), so the program
# must have been linked on a machine like this one. A static musl build would need neither, but is not what
# is tested everywhere else.
set -eu

program=$1 root=$2
mkdir -p "$root/usr/local/bin" "$root/etc/ssl/certs" "$root/data" "$root/tmp"
cp "$program" "$root/usr/local/bin/hookledger"
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
printf 'hookledger:x:65532:65532::/data:/sbin/nologin\n' >"$root/etc/passwd"
printf 'hookledger:x:65532:\n' >"$root/etc/group"
chmod 755 "$root/usr/local/bin/hookledger"
