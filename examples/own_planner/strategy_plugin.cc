// A strategy as a plugin: planner recompute --strategy-lib libevery_nth.so --strategy every_nth ...
#include "every_nth.h"
#include <tessera/memory/planner_library.h>

TESSERA_RECOMPUTE(EveryNth)
