package actions

import "slices"

// JobActions are the actions on jobs, in the order of their buttons.
var JobActions = slices.Concat(jobMoves(), jobMarks(), jobEdits())

// All has all actions by name.
var All = all()

func all() map[string]*Info {
	byName := map[string]*Info{}
	for _, info := range JobActions {
		info.OnJobs = true
		byName[info.Name] = info
	}
	for _, info := range slices.Concat(
		newJobActions(), queueActions(), recurringActions(), scheduleActions(), limitActions(),
		settingActions(),
	) {
		byName[info.Name] = info
	}
	return byName
}
