/*
 * How idle workers are woken: a model for spin. docs/internals/wake-ups.md describes the protocol,
 * and the script spin beside this file checks it in several settings.
 *
 * Each atomic step is one script on the server, or one event of a worker. Anything else may happen
 * between two steps. No worker ever polls: a job that only a poll would find violates the property,
 * which the process monitor checks in every state.
 *
 * The model does not fix which of the idle workers of a queue is woken, or from which of its queues
 * a worker takes a job first: every choice is checked.
 */

#define NQ 2 /* number of queues. A set of queues is a mask of two bits */

/* The setting: the queues that each worker asks, and how often each event may happen. */
#ifndef ASKS0
#define ASKS0 3
#endif
#ifndef ASKS1
#define ASKS1 3
#endif
#ifndef ASKS2
#define ASKS2 0 /* there is no third worker */
#endif
#ifndef ROOM
#define ROOM 1 /* jobs that a worker runs at once */
#endif
#ifndef PUTS
#define PUTS 0 /* puts by our own scripts */
#endif
#ifndef DELAYED
#define DELAYED 0 /* puts with a delay */
#endif
#ifndef BATCHES
#define BATCHES 0 /* puts of two jobs at once, one with a delay */
#endif
#ifndef RELEASED
#define RELEASED 0 /* jobs with a delay whose dependency completes */
#endif
#ifndef RECURRING
#define RECURRING 0 /* changes of a recurring job */
#endif
#ifndef CANCELED
#define CANCELED 0 /* cancellations of delayed jobs */
#endif
#ifndef FOREIGN
#define FOREIGN 0 /* puts by scripts of other clients, with or without a delay */
#endif
#ifndef LIMIT
#define LIMIT 0 /* max-concurrency of queue 0; 0 means none */
#endif
#ifndef RAISES
#define RAISES 0 /* raises of that limit */
#endif
#ifndef QPAUSES
#define QPAUSES 0 /* pauses of queue 0 */
#endif
#ifndef WPAUSES
#define WPAUSES 0 /* pauses of a worker */
#endif
#ifndef STOPS
#define STOPS 0 /* stops of workers, which then depart */
#endif
#ifndef BLIPS
#define BLIPS 0 /* breaks of subscriptions */
#endif
#ifndef LOSSES
#define LOSSES 0 /* lost replies of reserve */
#endif
#ifndef KILLS
#define KILLS 0 /* kills of worker processes */
#endif
#ifndef TIME
#define TIME 0 /* the last time on the clock; at most 4 */
#endif

#ifndef LISTENERS
#define LISTENERS 2 /* number of workers that relay, if there are enough */
#endif
#if FOREIGN > 0 || defined(FAULT_LOG_GATE)
#define RELAYS 1
#else
#define RELAYS 0 /* not needed */
#endif

/* The server. */
byte now;
byte ready[NQ];   /* jobs that can be taken */
byte orphans[NQ]; /* such jobs lost by a dead worker: nothing watched the end of the lock */
byte due[NQ];     /* jobs that fall due later: bit t is a job at time t */
byte unseen[NQ];  /* the ones of due that are locks of a dead worker, not seen by any worker yet */
byte claimed[NQ]; /* x:due:<queue>: the end of the claim, 0 for none */
byte holder[NQ];  /* x:due:<queue>: the claim's worker */
bit paused[NQ];
byte limit = LIMIT;
bit idle[3];      /* x:idle; a worker in it is in x:idle:<queue> of all its queues */
byte link[3];     /* the subscription of a worker */

#define DOWN 0 /* none, and the server knows */
#define UP 1
#define HALF 2 /* broken, but the server has not noticed: its messages are lost */

/* Workers. */
byte asks[3];
bit alive[3];
bit woken[3];    /* it will reserve when a slot is free: a wake-up is on its way, or has arrived */
bit missed[3];   /* a wake-up was lost in its broken connection */
bit reserves[3]; /* the reply of its reserve is on its way */
bit resting[3];  /* the last reply said that it is idle */
byte claim[3];   /* the queue for which it waits by the last reply, + 1 */
byte before[3];  /* the same by the previous reply */
bit rested[3];   /* resting by the previous reply */
byte alarm[3];   /* when its timer fires, 0 for never */
byte running[6]; /* its jobs: worker * 2 + queue */
bit halted[3];   /* paused by its program */
bit stopping[3];
byte leaving[3]; /* the stage of its departure */
byte relays[3];  /* whether it listens to the log */
byte to_relay[3]; /* queues for which it has to wake a worker */
bit counts[3];   /* its next reserve counts the relays: it has not done so recently */

#define NO 0
#define SUBSCRIBING 1 /* the first time, or after a break */
#define SUBSCRIBED 2

/* The events that may still happen. */
byte puts = PUTS, delays = DELAYED, batches = BATCHES, releases = RELEASED;
byte updates = RECURRING, cancels = CANCELED, foreign = FOREIGN;
byte raises = RAISES, qpauses = QPAUSES, wpauses = WPAUSES, stops = STOPS;
byte blips = BLIPS, losses = LOSSES, kills = KILLS;
byte recurs; /* queue + 1 of the recurring job */

byte new; /* a variable of become_idle; 0 between steps */
#ifdef RESERVES
byte asked;
#endif

#define ASKS(w, q) ((asks[w] >> (q)) & 1)
#define BUSY(w) (running[2 * (w)] + running[2 * (w) + 1])
#define HAS_ROOM(w) (BUSY(w) < ROOM)
#define WORKS(w) (alive[w] && !halted[w] && !stopping[w])
#define IN_USE(q) (running[q] + running[2 + (q)] + running[4 + (q)])
#define MAY_RUN(q) ((q) == 1 || limit == 0 || IN_USE(q) < limit)
#define HAS_MORE(q) (!paused[q] && ready[q] + orphans[q] > 0)
#define IS_LISTENING(w) (relays[w] == SUBSCRIBED && link[w] != DOWN)
#define LISTENING (IS_LISTENING(0) + IS_LISTENING(1) + IS_LISTENING(2))
#define FIRST(set) ((set) & 2 -> 1 : ((set) & 4 -> 2 : \
	((set) & 8 -> 3 : ((set) & 16 -> 4 : 0))))
#define COMING(q) (paused[q] -> 0 : FIRST(due[q]))

/* An idle worker waits for the next due time of a queue. */
#define IS_CLAIMED(q) (claimed[q] > 0 && claimed[q] <= FIRST(due[q]) && TRUSTED(q))
#define OTHER_WAITS(w, q) (holder[q] != w && IS_CLAIMED(q))
#ifdef FAULT_TRUST_BUSY
#define TRUSTED(q) 1
#else
#define TRUSTED(q) (idle[holder[q]])
#endif

#define IS_IDLE_OF(w, set) (idle[w] && (asks[w] & (set)))

/* wake: takes idle workers of a set of queues out of x:idle until one receives the message. */
inline wake_one_of(set) {
	do
	:: IS_IDLE_OF(0, set) -> publish(0)
	:: IS_IDLE_OF(1, set) -> publish(1)
	:: IS_IDLE_OF(2, set) -> publish(2)
	:: !IS_IDLE_OF(0, set) && !IS_IDLE_OF(1, set) && !IS_IDLE_OF(2, set) -> break
	od
}

inline publish(who) {
	idle[who] = 0;
	if
	:: link[who] == UP -> woken[who] = 1; break
	:: link[who] == HALF -> missed[who] = alive[who]; break
	:: link[who] == DOWN
	fi
}

#define wake(q) wake_one_of(1 << (q))

/* Our own scripts end with this if they put jobs. */
inline wake_after_put(q) {
#ifdef FAULT_LOG_GATE
	if
	:: LISTENING > 0 -> wake(q)
	:: else
	fi
#else
	wake(q)
#endif
}

/* reserve: deletes a claim, unless another worker has since claimed an earlier time. */
#ifdef KEEPS_CLAIMS
#define DELETES_CLAIMS 0 /* not needed: only claims of idle workers count */
#else
#define DELETES_CLAIMS 1
#endif
#define HOLDS(w, q) (holder[q] == w && claimed[q] > 0)
inline give_up_claim(w, q) {
	if
	:: HOLDS(w, q) && DELETES_CLAIMS -> claimed[q] = 0; holder[q] = 0
	:: else
	fi
}

#define UNCLAIMED(w, q) (COMING(q) > 0 && !OTHER_WAITS(w, q))

/* A worker claims one queue. Its timer fires before the due times of its other queues, and then it
 * claims the next one. When it is no longer idle, another worker has to claim them. */
#ifdef FAULT_REST_UNCLAIMED
#define IS_LEFT(w, q) (claim[w] == q + 1 && UNCLAIMED(w, q))
#else
#define IS_LEFT(w, q) UNCLAIMED(w, q)
#endif
#ifdef FAULT_PASS_ON_FIRST
#define IS_MORE(w, q) (HAS_MORE(q) && !(q == 1 && ASKS(w, 0) && HAS_MORE(0)))
#else
#define IS_MORE(w, q) HAS_MORE(q)
#endif

#ifdef FAULT_PAUSED_KEEPS
#define PASSES_ON(w) WORKS(w)
#else
#define PASSES_ON(w) 1
#endif

/* reserve without a free slot left: other workers get the jobs that this one leaves. */
inline become_busy(w) {
	idle[w] = 0;
	if
	:: claim[w] > 0 -> give_up_claim(w, claim[w] - 1)
	:: else
	fi;
	pass_on(w, 0);
	pass_on(w, 1);
	claim[w] = 0; alarm[w] = 0; resting[w] = 0
}

inline pass_on(w, q) {
	if
	:: PASSES_ON(w) && ASKS(w, q) && (IS_MORE(w, q) || IS_LEFT(w, q)) -> wake(q)
	:: else
	fi
}

#define MAY_CLAIM(w, q) (ASKS(w, q) && UNCLAIMED(w, q))

/* reserve with a free slot left. A worker that was not woken stays in x:idle, so it may itself be
 * woken for the claim that it gives up. */
inline become_idle(w) {
	new = 0;
	if
	:: MAY_CLAIM(w, 0) && (!MAY_CLAIM(w, 1) || COMING(0) <= COMING(1)) -> new = 1
	:: MAY_CLAIM(w, 1) && (!MAY_CLAIM(w, 0) || COMING(1) <= COMING(0)) -> new = 2
	:: !MAY_CLAIM(w, 0) && !MAY_CLAIM(w, 1)
	fi;
	alarm[w] = 0;
	if
	:: new > 0 -> alarm[w] = COMING(new - 1)
	:: else
	fi;
#ifndef KEEPS_CLAIMS
	if
	:: claim[w] > 0 && claim[w] != new && HOLDS(w, claim[w] - 1) ->
		give_up_claim(w, claim[w] - 1);
		wake(claim[w] - 1)
	:: else
	fi;
#endif
	if
	:: new > 0 -> claimed[new - 1] = alarm[w]; holder[new - 1] = w
	:: else
	fi;
	claim[w] = new; resting[w] = 1; idle[w] = 1;
	if
	:: ASKS(w, 0) -> unseen[0] = 0
	:: else
	fi;
	if
	:: ASKS(w, 1) -> unseen[1] = 0
	:: else
	fi;
	new = 0
}

#define WANTS_JOBS(w) (WORKS(w) && woken[w] && HAS_ROOM(w))
#define WANTS_TO_LEAVE(w) (!WORKS(w) && resting[w])
#define HAS_ENDED(w) (stopping[w] && !resting[w] && !reserves[w] && BUSY(w) == 0)

#define CAN_TAKE(w, q) (WORKS(w) && HAS_ROOM(w) && ASKS(w, q) && HAS_MORE(q) && MAY_RUN(q))

inline take(w, q) {
	running[2 * w + q]++;
	if
	:: orphans[q] > 0 -> orphans[q]--
	:: else -> ready[q]--
	fi
}

#define ANY_IDLE (idle[0] || idle[1] || idle[2])

/* The reply of reserve contains the number of listeners to the log if there are idle workers, and
 * unless it is brief. */
inline count_relays(w) {
#if RELAYS
	if
	:: counts[w] -> counts[w] = !resting[w]; /* while no worker is idle, none counts */
		join_relays(w)
	:: !counts[w] -> join_relays(w)
	:: !counts[w] -> skip /* it is brief */
	fi
#else
	skip
#endif
}

inline join_relays(w) {
	if
	:: RELAYS && ANY_IDLE && WORKS(w) && relays[w] == NO && link[w] == UP && LISTENING < LISTENERS ->
		relays[w] = SUBSCRIBING
	:: else
	fi
}

inline reserve(w) {
#ifdef RESERVES
	asked++;
	assert(asked <= RESERVES); /* workers don't wake each other forever */
#endif
	reserves[w] = 1;
	if
	:: losses > 0 -> before[w] = claim[w]; rested[w] = resting[w]
	:: else
	fi;
	do
	:: CAN_TAKE(w, 0) -> take(w, 0)
	:: CAN_TAKE(w, 1) -> take(w, 1)
	:: !CAN_TAKE(w, 0) && !CAN_TAKE(w, 1) -> break
	od;
	if
	:: WORKS(w) && HAS_ROOM(w) -> woken[w] = 0; become_idle(w)
	:: else -> become_busy(w); woken[w] = WORKS(w) /* it reserves again when it has a free slot */
	fi;
#ifdef FAULT_BUSY_JOINS_NOT
	if
	:: resting[w] -> count_relays(w)
	:: else
	fi
#else
	count_relays(w)
#endif
}

/* The worker finds the jobs of a lost reply and releases them. It does not know its claim, and
 * considers itself idle, which it may be. */
inline lose_reply(w) {
	losses--; counts[w] = RELAYS; reserves[w] = 0; claim[w] = before[w]; before[w] = 0; alarm[w] = 0; woken[w] = 1;
#ifdef FAULT_LOST_PAUSED
	resting[w] = rested[w];
#else
	resting[w] = resting[w] || rested[w];
#endif
	rested[w] = 0;
	lose_jobs(w, 0);
	lose_jobs(w, 1)
}

inline lose_jobs(w, q) {
	if
	:: running[2 * w + q] > 0 -> running[2 * w + q] = 0; ready[q]++; wake(q)
	:: else
	fi
}

/* A relay that has subscribed, perhaps again, may have missed puts. */
inline resync(w) {
	relays[w] = SUBSCRIBED;
#ifdef FAULT_LOG_GATE
	woken[w] = 1
#else
	resync_queue(0);
	resync_queue(1)
#endif
}

#ifdef FAULT_RESYNC_READY_ONLY
#define HAS_JOBS(q) (ready[q] + orphans[q] > 0)
#else
#define HAS_JOBS(q) (ready[q] + orphans[q] > 0 || (due[q] > 0 && !IS_CLAIMED(q)))
#endif

inline resync_queue(q) {
	if
	:: HAS_JOBS(q) -> wake(q)
	:: else
	fi
}

/* The steps that a worker is about to take by itself. A broken subscription does not count, unless
 * a wake-up was lost in it, or it is a relay's. */
#define PENDING(w) (alive[w] && (reserves[w] || missed[w] || to_relay[w] > 0 || \
	WANTS_JOBS(w) || WANTS_TO_LEAVE(w) || HAS_ENDED(w) || relays[w] == SUBSCRIBING || \
	(FOREIGN > 0 && relays[w] != NO && link[w] != UP)))

/* The property: if nothing is pending, no job waits while a worker of its queue has a free slot.
 * Handlers may run forever, and there may be no further put: neither counts as pending. */
#define SLEEPS(w, q) (WORKS(w) && HAS_ROOM(w) && ASKS(w, q) && link[w] == UP)
#define WAITS(q) (!paused[q] && ready[q] > 0 && MAY_RUN(q))
#define STARVES(q) (WAITS(q) && (SLEEPS(0, q) || SLEEPS(1, q) || SLEEPS(2, q)))

proctype monitor() {
end:
	atomic {
		!(PENDING(0) || PENDING(1) || PENDING(2)) && (STARVES(0) || STARVES(1)) ->
		assert(false)
	}
}

inline pick_running(w) {
	if
	:: running[2 * w] > 0 -> q = 0
	:: running[2 * w + 1] > 0 -> q = 1
	fi
}

inline finish(w, q) {
	running[2 * w + q]--;
	if
	:: q == 0 && limit > 0 -> wake(q)
	:: else
	fi
}

inline release(w, q) {
	running[2 * w + q]--;
	ready[q]++;
	wake(q)
}

inline relay(w) {
	if
	:: to_relay[w] & 1 -> wake(0)
	:: else
	fi;
	if
	:: to_relay[w] & 2 -> wake(1)
	:: else
	fi;
	to_relay[w] = 0
}

inline depart(w, q) {
	if
	:: ASKS(w, q) -> wake(q)
	:: else
	fi
}

proctype worker(byte w) {
	byte q;
end:
	do
	/* It reserves. A paused or stopping worker asks for no job, and is no longer idle. */
	:: atomic { alive[w] && !reserves[w] && (WANTS_JOBS(w) || WANTS_TO_LEAVE(w)) -> reserve(w) }
	:: atomic { reserves[w] -> reserves[w] = 0; before[w] = 0; rested[w] = 0 }
	:: atomic { reserves[w] && losses > 0 -> lose_reply(w) }

	/* It finishes a job, or releases it. */
	:: atomic { alive[w] && !reserves[w] && BUSY(w) > 0 -> pick_running(w); finish(w, q); q = 0 }
	:: atomic { alive[w] && !reserves[w] && BUSY(w) > 0 && !WORKS(w) ->
		pick_running(w); release(w, q); q = 0 }

	/* Its subscription is restored, and it may have missed a wake-up. */
	:: atomic { alive[w] && link[w] != UP && leaving[w] == 0 ->
		link[w] = UP; missed[w] = 0; woken[w] = 1; counts[w] = RELAYS }

	/* It listens to the log. */
	:: atomic { alive[w] && relays[w] == SUBSCRIBING && link[w] == UP -> resync(w) }
	:: atomic { alive[w] && to_relay[w] > 0 -> relay(w) }

	/* It departs. */
	:: atomic { HAS_ENDED(w) && leaving[w] == 0 ->
		leaving[w] = 1; link[w] = DOWN; missed[w] = 0; to_relay[w] = 0 }
	:: atomic { leaving[w] == 1 -> leaving[w] = 2; depart(w, 0); depart(w, 1) }
	:: atomic { leaving[w] == 2 -> leaving[w] = 3; alive[w] = 0; woken[w] = 0;
		if
		:: relays[w] != NO -> wake_one_of(3);
#ifndef FAULT_BRIEF_ALONE
			counts[0] = alive[0]; counts[1] = alive[1]; counts[2] = alive[2]
#endif
		:: else
		fi;
		relays[w] = NO }
	od
}

/* The events of the queues. */

#define FREE(q, t) (t > now && t <= TIME && !(due[q] & (1 << t)))

inline put(q) { puts--; ready[q]++; wake_after_put(q) }

inline put_delayed(q, t) { delays--; due[q] = due[q] | (1 << t); wake_after_put(q) }

inline put_batch(q, t) {
	batches--; ready[q]++; due[q] = due[q] | (1 << t);
	wake_after_put(q)
}

inline release_delayed(q, t) {
	releases--; due[q] = due[q] | (1 << t);
#ifndef FAULT_FREE_NO_WAKE
	wake(q)
#endif
}

inline cancel(q, t) { cancels--; due[q] = due[q] & ~(1 << t) }

inline put_foreign(q) {
	foreign--;
	log_put(0, q); log_put(1, q); log_put(2, q)
}

inline log_put(w, q) {
	if
	:: relays[w] == SUBSCRIBED && link[w] == UP -> to_relay[w] = to_relay[w] | (1 << q)
	:: else
	fi
}

/* The recurring job was due at the last time; now it is due earlier, or in the other queue. */
inline update(from, to, t) {
	updates--; recurs = to + 1;
	due[from] = due[from] & ~(1 << TIME);
	due[to] = due[to] | (1 << t);
#ifndef FAULT_RECUR_NO_WAKE
	wake(to)
#endif
}

inline fall_due(q) {
	if
	:: due[q] & (1 << now) ->
		due[q] = due[q] & ~(1 << now);
		if
		:: unseen[q] & (1 << now) -> unseen[q] = unseen[q] & ~(1 << now); orphans[q]++
		:: else -> ready[q]++
		fi
	:: else
	fi;
	if
	:: claimed[q] == now -> claimed[q] = 0; holder[q] = 0
	:: else
	fi
}

inline go_off(w) {
	if
	:: alarm[w] == now -> alarm[w] = 0; woken[w] = 1; counts[w] = RELAYS
	:: else
	fi
}

/* The events of workers. */

inline break_link(w, how) {
	blips--; link[w] = how; to_relay[w] = 0;
	if
	:: relays[w] == SUBSCRIBED -> relays[w] = SUBSCRIBING
	:: else
	fi
}

#define IS_LAST_RELAY(w) ((w == 0 || relays[0] == NO) && (w == 1 || relays[1] == NO) && \
	(w == 2 || relays[2] == NO))

/* The exceptions: if such a worker is killed, only a poll finds the jobs that it leaves. */
#ifdef EXCEPTION_KILLED_CLAIM
#define WAITS_FOR_DUE(w) 0
#else
#define WAITS_FOR_DUE(w) (claim[w] > 0) /* the others trust its claim */
#endif
#ifdef EXCEPTION_KILLED_WOKEN
#define WAS_WOKEN(w) 0
#else
#define WAS_WOKEN(w) (missed[w] || (woken[w] && HAS_ROOM(w))) /* no other worker was woken */
#endif
#ifdef EXCEPTION_KILLED_RELAYING
#define OWES_A_RELAY(w) 0
#else
/* Only this worker may have received a put. */
#define OWES_A_RELAY(w) (IS_LAST_RELAY(w) && (to_relay[w] > 0 || relays[w] == SUBSCRIBING))
#endif
#ifdef EXCEPTION_NO_RELAY
#define IS_RELAYED 1
#else
/* If all relays were killed, no worker listens to the log until one reserves. */
#define IS_RELAYED (kills == KILLS || relays[0] != NO || relays[1] != NO || relays[2] != NO)
#endif

#define MAY_BE_KILLED(w) (alive[w] && leaving[w] == 0 && kills > 0 && !WAITS_FOR_DUE(w) && \
	!WAS_WOKEN(w) && !OWES_A_RELAY(w))

inline kill(w) {
	kills--; alive[w] = 0; woken[w] = 0; missed[w] = 0; reserves[w] = 0; resting[w] = 0;
	alarm[w] = 0; relays[w] = NO; to_relay[w] = 0; counts[w] = 0; claim[w] = 0; halted[w] = 0; stopping[w] = 0;
#ifdef EXCEPTION_VANISHED
	link[w] = HALF; /* with its machine: the server does not notice */
#else
	link[w] = DOWN;
#endif
	lose_locks(w, 0);
	lose_locks(w, 1)
}

/* Locking a job wakes no worker, so no timer may be set for the end of the lock until a worker
 * becomes idle and sees the lock. */
inline lose_locks(w, q) {
	if
	:: running[2 * w + q] > 0 && FREE(q, TIME) ->
		due[q] = due[q] | (1 << TIME);
#ifndef EXCEPTION_LOCK_ENDS
		unseen[q] = unseen[q] | (1 << TIME)
#endif
	:: else
	fi;
	running[2 * w + q] = 0
}

inline pick_queue() {
	if
	:: q = 0
	:: q = 1
	fi
}

inline pick_time() {
	if
	:: t = now + 1
	:: now + 2 <= TIME -> t = now + 2
	:: now + 3 <= TIME -> t = now + 3
	fi
}

inline pick_worker() {
	if
	:: alive[0] -> w = 0
	:: alive[1] -> w = 1
	:: alive[2] -> w = 2
	:: !alive[0] && !alive[1] && !alive[2]
	fi
}

proctype world() {
	byte q, t, w;
end:
	do
	:: atomic { now < TIME && (due[0] || due[1] || claimed[0] || claimed[1]) ->
		now++;
		fall_due(0); fall_due(1); go_off(0); go_off(1); go_off(2) }

	:: atomic { puts > 0 -> pick_queue(); put(q); q = 0 }
	:: atomic { delays > 0 && now < TIME -> pick_queue(); pick_time();
		if
		:: FREE(q, t) -> put_delayed(q, t)
		:: else
		fi; q = 0; t = 0 }
	:: atomic { batches > 0 && now < TIME -> pick_queue(); pick_time();
		if
		:: FREE(q, t) -> put_batch(q, t)
		:: else
		fi; q = 0; t = 0 }
	:: atomic { releases > 0 && now < TIME -> pick_queue(); pick_time();
		if
		:: FREE(q, t) -> release_delayed(q, t)
		:: else
		fi; q = 0; t = 0 }
	:: atomic { cancels > 0 && (due[0] || due[1]) -> pick_queue(); pick_time();
		if
		:: (due[q] & (1 << t)) && !(recurs == q + 1 && t == TIME) -> cancel(q, t)
		:: else
		fi; q = 0; t = 0 }
	:: atomic { updates > 0 && now < TIME && recurs > 0 && (due[recurs - 1] & (1 << TIME)) ->
		pick_queue(); pick_time();
		if
		:: t > now && !(due[q] & (1 << t)) -> update(recurs - 1, q, t)
		:: else
		fi; q = 0; t = 0 }

	:: atomic { foreign > 0 && IS_RELAYED -> pick_queue(); ready[q]++; put_foreign(q); q = 0 }
	:: atomic { foreign > 0 && IS_RELAYED && now < TIME -> pick_queue(); pick_time();
		if
		:: FREE(q, t) -> due[q] = due[q] | (1 << t); put_foreign(q)
		:: else
		fi; q = 0; t = 0 }

	:: atomic { raises > 0 -> raises--; limit++;
#ifndef FAULT_CONFIG_NO_WAKE
		wake(0);
#endif
	}
	:: atomic { qpauses > 0 && !paused[0] -> qpauses--; paused[0] = 1 }
	:: atomic { paused[0] -> paused[0] = 0; wake(0) }

	:: atomic { wpauses > 0 -> pick_worker();
		if
		:: WORKS(w) -> wpauses--; halted[w] = 1
		:: else
		fi; w = 0 }
	:: atomic { halted[0] || halted[1] || halted[2] ->
		if
		:: halted[0] -> w = 0
		:: halted[1] -> w = 1
		:: halted[2] -> w = 2
		fi;
		halted[w] = 0; woken[w] = alive[w]; counts[w] = alive[w] && RELAYS; w = 0 }
	:: atomic { stops > 0 -> pick_worker();
		if
		:: alive[w] && !stopping[w] -> stops--; stopping[w] = 1
		:: else
		fi; w = 0 }
	:: atomic { blips > 0 -> pick_worker();
		if
		:: alive[w] && leaving[w] == 0 && link[w] == UP -> break_link(w, DOWN)
		:: alive[w] && leaving[w] == 0 && link[w] == UP -> break_link(w, HALF)
		:: else
		fi; w = 0 }
	:: atomic { kills > 0 -> pick_worker();
		if
		:: MAY_BE_KILLED(w) -> kill(w)
		:: else
		fi; w = 0 }
	od
}

inline start(w, queues) {
	asks[w] = queues; alive[w] = (queues > 0); link[w] = alive[w]; woken[w] = alive[w];
	counts[w] = alive[w] && RELAYS
}

init {
	atomic {
		start(0, ASKS0); start(1, ASKS1); start(2, ASKS2);
		if
		:: updates > 0 -> recurs = 1; due[0] = 1 << TIME
		:: else
		fi;
		run worker(0); run worker(1);
		if
		:: ASKS2 > 0 -> run worker(2)
		:: else
		fi;
		run world(); run monitor()
	}
}
