// Stream capture: issued work becomes nodes of a graph.
#pragma once

#include "machine.h"

namespace cuda_double {

void add_node(CUstream_st& stream, Operation operation);
// Handle an event recorded on a captured stream, and a stream that waits for such an event and so
// joins the capture.
void capture_record(CUstream_st& stream, EventState& event);
cudaError_t capture_wait(CUstream_st& stream, EventState& event);
bool captured(const EventState& event);
long captures_begun();  // captures that have not ended

}  // namespace cuda_double
