-- requeue: like put, for a job that must exist.
--
-- Args     worker, queue, jid, klass, data, delay, then the pairs of put
-- Returns  as put does
-- Errors   Requeue() when there is no such job, else those of put
-- Cost     put and one command
-- For      classic
-- Repeat   once

if call('exists', job_key(required('Put', 'jid', ARGV[5]))) == 0 then
  raise('Requeue', no_job(ARGV[5]))
end
return put_from_arguments(3)
