help([[
GSSR says how well a job saturates its GPUs, when and where it does not, and why:
  gssr profile -- COMMAND    runs a command and records
  gssr analyze               shows what this job's recording says
  gssr doctor                says what this machine offers
]])
whatis("Name: GSSR, the GPU saturation scorer")
whatis("Version: 0.5.0")
whatis("Category: profiling")

conflict("gssr")

-- Where it is installed: README.md of packaging/ says how. tools/ holds the command, and no python.
local root = "/opt/gssr"
prepend_path("PATH", pathJoin(root, "tools"))
