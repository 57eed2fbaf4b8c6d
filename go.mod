module github.com/qless/qless-go

go 1.25.0
