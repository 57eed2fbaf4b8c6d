# The program qless, from the root of the repository:
#
#   docker build -t qless .
#   docker run --read-only -e QLESS_REDIS_URL=redis://... -p 9464:9464 qless
#
# The two images can be named by their digests, so that every build has the same:
#
#   docker build --build-arg BUILD=golang:1.26@sha256:... --build-arg BASE=... .
ARG BUILD=golang:1.26
ARG BASE=gcr.io/distroless/static-debian12:nonroot

FROM ${BUILD} AS build
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0
RUN cd cmd && go build -trimpath -ldflags='-s -w' -o /qless ./qless

FROM ${BASE}
COPY --from=build /qless /usr/local/bin/qless
USER 65532:65532
EXPOSE 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/qless"]
CMD ["serve", "--metrics", ":9464"]
