package redisx_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/qless/qless-go/internal/redisx"
)

func TestParseInfo(t *testing.T) {
	text := "# Server\r\nredis_version:7.2.4\r\n\r\n# Keyspace\r\ndb0:keys=1,expires=0\r\nnonsense\r\n"
	assert.Equal(t, map[string]string{"redis_version": "7.2.4", "db0": "keys=1,expires=0"},
		redisx.ParseInfo(text))
	assert.Empty(t, redisx.ParseInfo(""))
}
