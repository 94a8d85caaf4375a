// SPDX-License-Identifier: Apache-2.0
// Writers of the report folder. Output depends on nothing but the record: no wall clock, no hash order.
#pragma once

#include <iosfwd>
#include <string>

#include "sim/trace/record.hpp"

namespace plansim {

/// Chrome trace event format (JSON array), as ui.perfetto.dev opens it: one process per device with a compute thread, a
/// communication thread and a memory counter. Times in microseconds.
void write_trace(std::ostream& out, const ReplayRecord& record, const Plan& plan, int devices_per_node);
/// One row per device: place, time by class, peak memory by tag.
void write_devices_csv(std::ostream& out, const ReplayRecord& record, int devices_per_node);
/// One row per directed link: bytes and utilisation.
void write_links_csv(std::ostream& out, const ReplayRecord& record);
/// Live bytes by tag at every change, one block per worker.
void write_memory_csv(std::ostream& out, const ReplayRecord& record);

}  // namespace plansim
