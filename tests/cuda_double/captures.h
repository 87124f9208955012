// Stream capture: what is issued becomes nodes of a graph.
#pragma once

#include "machine.h"

namespace cuda_double {

void add_node(CUstream_st& stream, Operation operation);
// An event recorded on a stream that is captured, and a stream that waits for such an event and so
// becomes part of the capture.
void capture_record(CUstream_st& stream, EventState& event);
cudaError_t capture_wait(CUstream_st& stream, EventState& event);
bool captured(const EventState& event);
long captures_begun();  // and not ended

}  // namespace cuda_double
