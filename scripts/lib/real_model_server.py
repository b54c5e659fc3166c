"""Serves a GGUF model on a free port of loopback and prints the address when the model is loaded. Ends when it is killed."""

import os
import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
# The Editor's tools and a small repository need about 8,000 tokens of prompt.
params.n_ctx = 32768
# One conversation at a time, so that it has the whole context and the whole processor.
params.n_parallel = 1
params.cpuparams.n_threads = os.cpu_count() or 1
params.cpuparams_batch.n_threads = os.cpu_count() or 1

# The library writes its log to the standard output, which is for the address alone.
address_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
server = xllamacpp.Server(params)
print(server.listening_address, file=address_out, flush=True)
signal.pause()
