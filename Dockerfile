# The image that the action measures in. Two targets:
#
#   docker build .                  gate, clang, headers, bpftool, git, make
#   docker build --target slim .    gate alone: for objects that are built elsewhere
#
# Both bases are build arguments, for mirrors and for hosts without a registry. A
# release looks up what their tags are on that day, builds with NAME:TAG@DIGEST, and
# writes that into these two lines of its commit, so that a build of the release from
# source begins with the same. What apt installs is fixed by the digest of the
# published image, by which the action pulls; a build from source has what the
# distribution has on that day.
# Nothing here needs BuildKit, nor a certain architecture.
ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BASE_IMAGE=debian:bookworm-20250520-slim

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath \
      -ldflags "-s -w -X github.com/org/ebpf-bench-gate/internal/cli.Version=${VERSION}" \
      -o /out/gate ./cmd/gate

FROM scratch AS slim
COPY --from=build /out/gate /usr/local/bin/gate
ENV PATH=/usr/local/bin
ENTRYPOINT ["/usr/local/bin/gate"]

FROM ${BASE_IMAGE} AS full
# The newest clang of the release: old ones lack what today's eBPF is written with
# (-mcpu=v4, address spaces).
ARG CLANG=19
# asm/types.h lies where clang does not look when its target is bpf.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      bpftool ca-certificates "clang-${CLANG}" git libbpf-dev libelf-dev linux-libc-dev make \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log /usr/share/doc /usr/share/man \
 && ln -s "/usr/bin/clang-${CLANG}" /usr/local/bin/clang \
 && ln -s "$(uname -m)-linux-gnu/asm" /usr/include/asm \
 && ln -sf /usr/sbin/bpftool /usr/local/bin/bpftool
COPY scripts/action/clang-in-image.sh /usr/local/bin/gate-clang
COPY --from=build /out/gate /usr/local/bin/gate
ENTRYPOINT ["/usr/local/bin/gate"]
