// SPDX-License-Identifier: Apache-2.0
// The data-parallel collectives of a replay: each stage has one communication stream that runs its buckets in the order
// in which all simulated holders of its parameters have become ready for them; private to the module.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "sim/replay/buckets.hpp"
#include "sim/replay/engine.hpp"
#include "sim/schedule/schedule.hpp"

namespace plansim {

class DataStreams {
  public:
    /// What of the plan is simulated.
    struct Extent {
        int replicas = 1;
        int tensor_ranks = 1;  // 1: the first tensor-parallel rank stands for all
        bool folded = false;   // one replica stands for all
        bool alone = false;    // nothing else uses the links of data-parallel groups: their collectives are delays
    };
    /// All must outlive the streams.
    DataStreams(CostModel& model, const Plan& plan, Engine& engine, Extent extent);

    /// The buckets that a stage runs. Under DualPipe stages s and pp - 1 - s hold the same parameters and share those
    /// of the first.
    [[nodiscard]] const StageBuckets& of(int stage) const { return stages_[owner(stage)].buckets; }
    /// The same with chunks in the order of this stage: the other way round on the second stage of a pair.
    [[nodiscard]] StageBuckets laid_out(int stage) const;

    /// One more holder is ready for the bucket.
    void mark_ready(int stage, int bucket);
    /// The latency of a bucket has passed.
    void start_flows(int stage, std::size_t bucket);
    /// A flow or delay of a bucket has ended. Returns the start of the run if that was its end. `beside_compute`: a
    /// holder computes; then the collective gets only a share of the device and ends later.
    std::optional<Seconds> end_flow(int stage, std::size_t bucket, bool beside_compute);

    /// True if the bucket has run as often as the pass that awaits it demands.
    [[nodiscard]] bool has_run(int stage, int bucket, const std::optional<Instruction>& awaited_by) const;
    /// True while parameters that the step starts with are on their way.
    [[nodiscard]] bool gathering(int stage) const;
    /// True once all gradients of the step are reduced.
    [[nodiscard]] bool reductions_done(int stage) const;

    /// Adds the bytes of flows that were not simulated because others stood for them (same tensor-parallel ranks).
    void add_bytes_stood_for(std::vector<std::int64_t>& bytes);
    /// Adds the bytes of collectives that ran as delays.
    void add_bytes_of_delays(std::vector<std::int64_t>& bytes) const;

  private:
    /// A collective of one group: the flows that are simulated, and those that these stand for.
    struct GroupCollective {
        Decomposition simulated;
        std::vector<HopFlow> others;
    };
    /// A run of a bucket that is under way.
    struct Stream {
        StageBuckets buckets;
        std::deque<int> queue;  // ready in all holders, not started yet
        int running = -1;
        int pending_flows = 0;
        bool stretched = false;  // its flows have ended, the time that it loses to the compute beside it has not
        Seconds start;
    };

    [[nodiscard]] std::size_t owner(int stage) const { return static_cast<std::size_t>(layout_.owner_of(stage)); }
    void start_next(std::size_t stage);
    const std::vector<Group>& groups(DataGroup kind, std::size_t stage);
    const GroupCollective& collective(const Group& group, const Bucket& bucket);
    void keep_own_flows(GroupCollective& collective) const;

    CostModel& model_;
    const Plan& plan_;
    Engine& engine_;
    Extent extent_;
    Layout layout_;
    const Topology& topology_;
    std::vector<Stream> stages_;
    std::set<int> own_nodes_;  // of the simulated workers
    std::map<std::pair<DataGroup, std::size_t>, std::vector<Group>> groups_;
    std::map<std::tuple<DeviceId, std::size_t, CollectiveKind, std::int64_t>, GroupCollective> collectives_;
};

}  // namespace plansim
