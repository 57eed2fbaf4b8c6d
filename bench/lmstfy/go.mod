module github.com/qless/qless-go/bench/lmstfy

go 1.26.0

replace (
	github.com/qless/qless-go => ../../
	github.com/qless/qless-go/gateway => ../../gateway
)

require (
	github.com/qless/qless-go v0.0.0-00010101000000-000000000000
	github.com/qless/qless-go/gateway v0.0.0-00010101000000-000000000000
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
