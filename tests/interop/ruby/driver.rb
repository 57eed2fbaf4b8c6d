# One side of the tests: runs the requests on its standard input with the gem qless.
#
# A request is {"op": NAME, "args": {...}} on one line, and so is its answer: {"reply": ...} or
# {"error": {"class": NAME, "text": ...}}. The requests are listed in ../README.md.

require 'json'
require 'qless'
require 'thread'
require 'timeout'

PATIENCE = 20 # seconds until what has to happen did not

class Driver
  def initialize(url)
    @url = url
  end

  # The scenario

  # Begins a scenario, with the name of this side's worker.
  def begin(worker:)
    @client = Qless::Client.new(url: @url)
    @client.worker_name = worker
    @held = {}
    @heard = Queue.new
    nil
  end

  # Records events from now on: of tracked jobs, and of this side's worker.
  def listen
    heard, kinds = @heard, Qless::ClientEvents::EVENTS
    own = "ql:w:#{@client.worker_name}"
    channels = kinds.map { |kind| "ql:#{kind}" } + [own]
    subscribed = Queue.new
    Thread.new do
      Redis.new(url: @url).subscribe(*channels) do |on|
        on.subscribe { |channel, _| subscribed << channel }
        on.message do |channel, message|
          heard << if channel == own
                     JSON.parse(message)
                   else
                     { 'event' => channel.sub('ql:', ''), 'jid' => message }
                   end
        end
      end
    end
    Timeout.timeout(PATIENCE) { channels.each { subscribed.pop } }
    nil
  end

  # Waits for an event, and drops earlier ones.
  def hear(event:, jid:)
    Timeout.timeout(PATIENCE) do
      loop do
        told = @heard.pop
        return told if told['event'] == event && told['jid'] == jid
      end
    end
  end

  # Jobs

  def put(queue:, klass: 'K', data: {}, **options)
    @client.queues[queue].put(klass, data, options)
  end

  def pop(queue:, count: 1)
    jobs = @client.queues[queue].pop(count)
    jobs.each { |job| @held[job.jid] = job }
    jobs.map { |job| told(job) }
  end

  def peek(queue:, count: 1)
    @client.queues[queue].peek(count).map { |job| told(job) }
  end

  def job(jid:)
    found = @client.jobs[jid]
    found && told(found)
  end

  def complete(jid:, data: nil, next: nil, delay: 0, depends: [])
    nxt = binding.local_variable_get(:next)
    job = changed(jid, data)
    nxt ? job.complete(nxt, delay: delay, depends: depends) : job.complete
  end

  def fail(jid:, group:, message:, data: nil)
    changed(jid, data).fail(group, message)
  end

  def heartbeat(jid:, data: nil)
    changed(jid, data).heartbeat.to_f >= Time.now.to_i
  end

  def retry(jid:, delay: 0, group: nil, message: nil)
    job_of(jid).retry(delay, group, message)
  end

  def move(jid:, queue:)
    job_of(jid).requeue(queue)
  end

  def timeout(jid:)
    job_of(jid).timeout
    nil
  end

  def cancel(jid:)
    job_of(jid).cancel
  end

  def prioritize(jid:, priority:)
    job_of(jid).priority = priority
  end

  def depend(jid:, on:)
    job_of(jid).depend(*on)
  end

  def undepend(jid:, on:)
    job_of(jid).undepend(*on)
  end

  def tag(jid:, tags:)
    JSON.parse(job_of(jid).tag(*tags))
  end

  def untag(jid:, tags:)
    JSON.parse(job_of(jid).untag(*tags))
  end

  def track(jid:)
    job_of(jid).track
  end

  def untrack(jid:)
    job_of(jid).untrack
  end

  # Lists

  def tagged(tag:)
    @client.jobs.tagged(tag)
  end

  def tags
    @client.tags
  end

  def tracked
    found = @client.jobs.tracked
    { jobs: found['jobs'].map(&:jid), expired: found['expired'] }
  end

  def failed
    @client.jobs.failed
  end

  def failed_in(group:)
    found = @client.jobs.failed(group)
    { total: found['total'], jobs: found['jobs'].map(&:jid) }
  end

  # The gem has no method for this command.
  def unfail(group:, queue:, count: 25)
    @client.call('unfail', queue, group, count)
  end

  def completed
    @client.jobs.complete
  end

  def jobs(queue:, state:)
    @client.queues[queue].jobs.public_send(state)
  end

  def counts(queue:)
    @client.queues[queue].counts
  end

  def queues
    @client.queues.counts.map { |counts| counts['name'] }.sort
  end

  def stats(queue:)
    stats = @client.queues[queue].stats
    %w[wait run].each { |times| stats[times] = stats[times]['count'] }
    stats
  end

  def workers
    @client.workers.counts.to_a.sort_by { |worker| worker['name'] }
  end

  def worker(name:)
    @client.workers[name]
  end

  # Recurring jobs

  def recur(queue:, interval:, klass: 'K', data: {}, **options)
    @client.queues[queue].recur(klass, data, interval, options)
  end

  def recurring(jid:)
    job = @client.jobs[jid]
    job && {
      jid: job.jid, klass: job.klass_name, queue: job.queue_name, data: job.data, priority: job.priority,
      retries: job.retries, interval: job.interval, count: job.count, tags: job.tags
    }
  end

  def recur_change(jid:, tags: [], queue: nil, **changes)
    job = job_of(jid)
    changes.each { |name, value| job.public_send("#{name}=", value) }
    job.tag(*tags) unless tags.empty?
    job.move(queue) if queue
    nil
  end

  def unrecur(jid:)
    job_of(jid).cancel
  end

  # Settings

  def pause(queue:)
    @client.queues[queue].pause
  end

  def unpause(queue:)
    @client.queues[queue].unpause
  end

  def set(option:, value:)
    @client.config[option] = value
  end

  def unset(option:)
    @client.config.clear(option)
  end

  def get(option:)
    @client.config[option].to_s
  end

  private

  # The job as this side popped it, or otherwise as it is now.
  def job_of(jid)
    @held[jid] || @client.jobs[jid] || raise(KeyError, "Job #{jid} does not exist")
  end

  def changed(jid, data)
    job = job_of(jid)
    job.data = data unless data.nil?
    job
  end

  # A job in the scenarios' form.
  def told(job)
    {
      jid: job.jid, klass: job.klass_name, queue: job.queue_name, state: job.state, worker: job.worker_name,
      data: job.data, priority: job.priority, retries: job.original_retries, remaining: job.retries_left,
      tags: job.tags, tracked: job.tracked, dependencies: job.dependencies.sort, dependents: job.dependents.sort,
      failure: job.failure.to_h.fetch('group', ''), history: job.raw_queue_history.map { |entry| entry['what'] }
    }
  end
end

driver = Driver.new(ARGV.fetch(0))
$stdin.each_line do |line|
  request = JSON.parse(line)
  # The names of arguments become symbols; names in data stay strings.
  arguments = request['args'].each_with_object({}) { |(name, value), all| all[name.to_sym] = value }
  begin
    answer = { reply: driver.public_send(request['op'], **arguments) }
  rescue StandardError => e # whatever it is, the other side has to know
    answer = { error: { class: e.class.name, text: e.message } }
  end
  $stdout.puts(JSON.generate(answer))
  $stdout.flush
end
