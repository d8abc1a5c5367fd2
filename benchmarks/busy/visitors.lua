-- For wrk: sends the HTTP requests of a file in turn, which zero bytes separate. Prints one line of JSON at the end.
local requests, number = {}, 0

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  for request in file:read("*a"):gmatch("%Z+") do
    requests[#requests + 1] = request
  end
  file:close()
end

function request()
  number = number % #requests + 1
  return requests[number]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"answers": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "refused": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
