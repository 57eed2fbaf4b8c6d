package words

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchedulesInWords(t *testing.T) {
	for spec, want := range map[string]string{
		"* * * * *":                        "every minute",
		"*/1 * * * *":                      "every minute",
		"*/5 * * * *":                      "every 5 minutes",
		"*/7 * * * *":                      "", // not every 7 minutes
		"15 * * * *":                       "every hour, at minute 15",
		"0 */6 * * *":                      "every 6 hours",
		"30 */2 * * *":                     "every 2 hours, at minute 30",
		"30 6 * * *":                       "every day at 06:30",
		"0 8-17 * * *":                     "",
		"6 006 * * *":                      "every day at 06:06",
		"0 0 abc * *":                      "",
		"0 6,18 * * *":                     "every day at 06:00 and 18:00",
		"30 6 * * 1-5":                     "at 06:30 on Monday to Friday",
		"30 6 * * mon-fri":                 "at 06:30 on Monday to Friday",
		"0 0 * * 0":                        "at 00:00 on Sunday",
		"0 0 * * 7":                        "at 00:00 on Sunday",
		"0 0 * * 0-6":                      "at 00:00 on Sunday to Saturday",
		"0 9 * * 6,0":                      "at 09:00 on Saturday and Sunday",
		"0 9 1 * *":                        "at 09:00 on day 1 of every month",
		"0 9 1,15 * *":                     "at 09:00 on day 1 and 15 of every month",
		"0 0 24 12 *":                      "at 00:00 on day 24 of December",
		"0 0 1 jan,jul *":                  "at 00:00 on day 1 of January and July",
		"*/10 * * * 1-5":                   "every 10 minutes on Monday to Friday",
		"CRON_TZ=Europe/Berlin 30 6 * * *": "every day at 06:30",
		"TZ=UTC @daily":                    "every day at 00:00",
		"@hourly":                          "every hour",
		"@weekly":                          "at 00:00 on Sunday",
		"@monthly":                         "at 00:00 on day 1 of every month",
		"@yearly":                          "at 00:00 on day 1 of January",
		"@every 90s":                       "every 1m30s",
		"@every 1h":                        "every 1h",
		"@every 48h":                       "every 48h",
		"@every 1.5s":                      "every 1.5s",
		"@every x":                         "",
		"0 0 13 * 5":                       "", // either of the two, which is hard to describe
		"1-10,20,30-40 6 * * *":            "",
		"0 0 32 * *":                       "",
		"5-1 * * * *":                      "",
		"0 0 1-31 * *":                     "at 00:00 on day 1 to 31 of every month",
		"0 0 1-99999999999 * *":            "",
		"":                                 "", "x": "", "CRON_TZ=": "", "a b c d e": "",
	} {
		require.Equal(t, want, Schedule(spec), spec)
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("30 6 * * 1-5")
	f.Add("CRON_TZ=UTC */5 0-23 1,2 jan 7")
	f.Fuzz(func(_ *testing.T, spec string) { Schedule(spec) })
}
