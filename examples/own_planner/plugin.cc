// A planner as a plugin: trainer plan --planner-lib liblottery.so memory.planner=lottery ...
#include "lottery.h"
#include <tessera/memory/planner_library.h>

TESSERA_PLANNER(Lottery)
