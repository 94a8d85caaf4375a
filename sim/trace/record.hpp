// SPDX-License-Identifier: Apache-2.0
// What a replay leaves behind: where every device's time went, what the links carried, how memory moved, and (on
// request) the timeline. Filled by the replay, written by the writers of this module.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/spec/memory_tag.hpp"
#include "sim/spec/plan.hpp"

namespace plansim {

/// Where a device's time goes; the shares of a device add up to the iteration time.
enum class TimeClass {
    compute,
    recompute,
    tp_exposed,
    cp_exposed,
    ep_exposed,
    pp_exposed,  // waiting while a stage boundary is being transferred
    bubble,      // waiting for another stage to compute
    dp_exposed,  // waiting for gradients to be reduced or parameters to be gathered
    optimizer,
    throttle_loss,
    other  // host time that the device waits for, fixed time per step
};
inline constexpr std::size_t kTimeClasses = 11;
std::string_view name_of(TimeClass time_class);

class Breakdown {
  public:
    Seconds& operator[](TimeClass time_class) { return shares_[static_cast<std::size_t>(time_class)]; }
    Seconds operator[](TimeClass time_class) const { return shares_[static_cast<std::size_t>(time_class)]; }
    [[nodiscard]] Seconds total() const;
    Breakdown& operator+=(const Breakdown& other);
    friend Breakdown operator*(Breakdown breakdown, double factor);

    /// Kernels and host work of the device itself.
    [[nodiscard]] Seconds busy() const;
    /// Waiting for communication of any kind.
    [[nodiscard]] Seconds communication() const;
    /// Waiting for others.
    [[nodiscard]] Seconds idle() const { return (*this)[TimeClass::bubble]; }

  private:
    std::array<Seconds, kTimeClasses> shares_{};
};

/// Live memory of a device.
struct MemorySample {
    Seconds time;
    MemoryByTag live;
};

/// All devices of a worker (the tensor-parallel group of a stage of a replica) share one account.
struct WorkerRecord {
    int replica = 0;
    int stage = 0;
    std::vector<int> devices;
    Breakdown breakdown;
    Bytes peak_memory;
    MemoryByTag at_peak;               // what was live at the peak
    Flops flops;                       // executed by one device, recomputation included
    std::vector<MemorySample> memory;  // if recorded
};

enum class SliceKind {
    forward,
    backward,
    backward_input,
    backward_weight,
    send_forward,
    send_backward,
    reduce_gradients,
    gather_parameters,
    optimizer_step,
    host
};
std::string_view name_of(SliceKind kind);

/// One bar of the timeline of a worker.
struct Slice {
    int worker = 0;
    SliceKind kind = SliceKind::forward;
    int chunk = 0;  // chunk of a pass or transfer, bucket of a collective
    std::int64_t microbatch = 0;
    Seconds start;
    Seconds end;
};

struct LinkRecord {
    std::string name;
    std::string link_class;
    BytesPerSecond bandwidth;
    std::int64_t bytes = 0;
};

struct ReplayRecord {
    Seconds iteration_time;
    std::vector<WorkerRecord> workers;  // one per simulated worker; folded replicas are copies of replica 0
    std::size_t slowest = 0;            // worker with the least idle time
    std::vector<Slice> slices;          // if recorded
    std::vector<LinkRecord> links;
    std::uint64_t events = 0;
    std::uint64_t flows = 0;
    std::uint64_t delays = 0;
    bool folded = false;
};

}  // namespace plansim
