#!/usr/bin/env bash
# Why: what the dataflow adds to each request of an evaluation. What: requests per second through drive, route and serve,
# beside a bare timely loop with the same exchanges in the same run; one and two workers, one and two processes, small and
# 2 KB payloads. Knobs: QUESTIONS (100000), ROUNDS (4), REQUESTS per round (4).
set -euo pipefail
cd "$(dirname "$0")/../../.."
cargo build --release -p hopeval-operators --example dataflow_bench
bench=target/release/examples/dataflow_bench
questions=${QUESTIONS:-100000} rounds=${ROUNDS:-4} requests=${REQUESTS:-4}
echo "| what | workers | processes | payload | requests | seconds | requests/s | ns per request |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
for payload in 16 2048; do
    count=$((payload > 1000 ? questions / 5 : questions))
    for workers in 1 2; do
        "$bench" "$count" "$rounds" "$requests" "$payload" "$workers"
    done
    # Two processes of one worker on loopback; process 0 prints, timely says how it connects.
    "$bench" "$count" "$rounds" "$requests" "$payload" 1 1 127.0.0.1:41731 127.0.0.1:41732 >/dev/null 2>&1 &
    "$bench" "$count" "$rounds" "$requests" "$payload" 1 0 127.0.0.1:41731 127.0.0.1:41732 2>/dev/null | grep '^|'
    wait
done
