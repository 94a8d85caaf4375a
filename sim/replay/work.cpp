// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/work.hpp"

#include <algorithm>

namespace plansim {
namespace {

/// Builds the steps of one chunk.
class ChunkBuilder {
  public:
    ChunkBuilder(CostModel& model, const Plan& plan, int stage, std::size_t chunk, const StageBuckets& buckets,
                 Fidelity fidelity, const Contention& contention, CollectiveCounts& counts)
        : model_(model),
          plan_(plan),
          stage_(stage),
          chunk_(chunk),
          buckets_(buckets),
          fidelity_(fidelity),
          contention_(contention),
          counts_(counts) {}

    ChunkWork build() {
        ChunkWork work;
        const std::int64_t microbatches = plan_.shape().passes();
        const bool gathers = has_bucket(buckets_.gather_of_unit[chunk_]);
        const bool reduces = has_bucket(buckets_.reduce_of_unit[chunk_]);
        work.forward = pass(PassKind::forward, false, microbatches - (gathers ? 1 : 0));
        if (gathers) work.first_forward = pass(PassKind::forward, true, 1);
        if (splits_backward(plan_.schedule)) {
            work.backward_input = pass(PassKind::backward_input, false, microbatches);
            work.backward_weight = pass(PassKind::backward_weight, false, microbatches - (reduces ? 1 : 0));
            if (reduces) work.last_weight = pass(PassKind::backward_weight, true, 1);
        } else {
            work.backward = pass(PassKind::backward, false, microbatches - (reduces ? 1 : 0));
            if (reduces) work.last_backward = pass(PassKind::backward, true, 1);
        }
        for (std::int64_t index = range().first; index < range().last; ++index) {
            const UnitCost& cost = unit(index);
            work.forward_flops += cost.forward.flops;
            work.backward_flops += cost.recompute.flops + cost.backward.flops;
            work.weight_flops += cost.backward_weight.flops;
            work.boundary = cost.boundary;
        }
        return work;
    }

  private:
    [[nodiscard]] const ChainRange& range() const { return plan_.stages[static_cast<std::size_t>(stage_)][chunk_]; }
    const UnitCost& unit(std::int64_t index) {
        return model_.unit(index, plan_, plan_.recompute[static_cast<std::size_t>(stage_)]);
    }
    static bool has_bucket(const std::vector<int>& units) {
        return std::any_of(units.begin(), units.end(), [](int bucket) { return bucket >= 0; });
    }

    /// Steps of one pass, executed `repeats` times in the iteration. `window`: beside data-parallel collectives.
    Work pass(PassKind kind, bool window, std::int64_t repeats) {
        Work work;
        const bool backward = kind != PassKind::forward;
        const auto units = static_cast<std::size_t>(range().size());
        const bool split = fidelity_ == Fidelity::layer || window;
        if (!split) work.emplace_back();
        for (std::size_t turn = 0; turn < units; ++turn) {
            const std::size_t position = backward ? units - 1 - turn : turn;
            const UnitCost& cost = unit(range().first + static_cast<std::int64_t>(position));
            if (split) {
                work.emplace_back();
                if (window && !backward) work.back().await_bucket = buckets_.gather_of_unit[chunk_][position];
                if (window) slow_down(work.back(), cost, kind);
            }
            if (backward && kind != PassKind::backward_weight)
                add_phase(work, cost.recompute, TimeClass::recompute, window, repeats);
            add_phase(work, phase_of(cost, kind), TimeClass::compute, window, repeats);
            if (window && backward) work.back().release_bucket = buckets_.reduce_of_unit[chunk_][position];
        }
        return work;
    }

    static const Phase& phase_of(const UnitCost& cost, PassKind kind) {
        switch (kind) {
            case PassKind::forward:
                return cost.forward;
            case PassKind::backward_input:
                return cost.backward_input;
            case PassKind::backward_weight:
                return cost.backward_weight;
            case PassKind::backward:
                break;
        }
        return cost.backward;
    }

    void add_phase(Work& work, const Phase& phase, TimeClass compute_class, bool window, std::int64_t repeats) {
        const bool flows = fidelity_ == Fidelity::layer && (contention_.always || (window && contention_.with_buckets));
        // A collective that runs as flows owns its step; what follows starts a new one.
        if (work.back().flow != nullptr) work.emplace_back();
        const std::size_t first = work.size() - 1;
        work[first].shares[compute_class] += phase.compute;
        work[first].shares[TimeClass::other] += phase.other;
        Seconds ring_steps = phase.cp_exposed;  // what is exposed beyond the transfers themselves
        for (const UnitCollective& call : phase.collectives) {
            CollectiveCount& count = counts_[{call.axis, call.kind, call.size.value()}];
            (flows ? count.as_flow : count.as_delay) += repeats;
            if (fidelity_ == Fidelity::layer) work.emplace_back();
            WorkStep& step = work.back();
            if (flows) {
                // The hidden part of the collective runs beside a slice of the compute time.
                const Seconds slice = std::min(call.hidden, work[first].shares[compute_class]);
                work[first].shares[compute_class] -= slice;
                step.shares[compute_class] += slice;
                step.flow = &call;
            } else {
                step.shares[call.axis == Axis::tp ? TimeClass::tp_exposed : TimeClass::cp_exposed] +=
                    call.time - call.hidden;
            }
            if (call.axis == Axis::cp) ring_steps -= call.time - call.hidden;
        }
        work[first].shares[TimeClass::cp_exposed] += std::max(ring_steps, Seconds(0));
    }

    /// Compute that runs beside the unit's share of its data-parallel bucket is slower.
    void slow_down(WorkStep& step, const UnitCost& cost, PassKind kind) {
        const bool backward = kind != PassKind::forward;
        Seconds collectives;
        double parameters = 0;
        for (const Bucket& bucket : buckets_.buckets) {
            const bool gather = bucket.kind == CollectiveKind::all_gather;
            if (gather == backward) continue;
            collectives += bucket.estimate;
            parameters += bucket.size.as_double();
        }
        const Software& software = model_.scenario().software;
        const Bytes own = backward ? gradient_message(software, cost.parameters) : parameter_message(cost.parameters);
        const Seconds beside = parameters > 0 ? collectives * (own.as_double() / parameters) : Seconds(0);
        Seconds compute = phase_of(cost, kind).total();
        if (kind == PassKind::backward) compute += cost.recompute.total();
        const Seconds lost = std::min(beside, compute) * software.overlap_slowdown;
        (backward ? step.shares[TimeClass::compute] : step.beside_gathers) += lost;
    }

    CostModel& model_;
    const Plan& plan_;
    int stage_;
    std::size_t chunk_;
    const StageBuckets& buckets_;
    Fidelity fidelity_;
    const Contention& contention_;
    CollectiveCounts& counts_;
};

}  // namespace

StageWork make_stage_work(CostModel& model, const Plan& plan, int stage, const StageBuckets& buckets, Fidelity fidelity,
                          const Contention& contention) {
    StageWork work;
    std::int64_t parameters = 0;
    const auto& chunks = plan.stages[static_cast<std::size_t>(stage)];
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        work.chunks.push_back(
            ChunkBuilder(model, plan, stage, chunk, buckets, fidelity, contention, work.collectives).build());
        for (std::int64_t index = chunks[chunk].first; index < chunks[chunk].last; ++index)
            parameters += model.unit(index, plan, plan.recompute[static_cast<std::size_t>(stage)]).parameters;
    }
    WorkStep optimizer;
    optimizer.shares[TimeClass::optimizer] = model.optimizer_time(parameters, plan.zero >= 1 ? plan.data_ranks() : 1);
    WorkStep host;
    host.shares[TimeClass::other] = model.scenario().software.iteration_time;
    const bool gather_at_end =
        plan.data_ranks() > 1 && plan.zero >= 1 && !model.scenario().software.dp_overlap && buckets.buckets.size() > 1;
    if (gather_at_end) {
        optimizer.release_bucket =
            static_cast<int>(buckets.buckets.size()) - 1;  // released once the parameters are new
        host.await_bucket = optimizer.release_bucket;
    }
    work.finish = {optimizer, host};
    return work;
}

}  // namespace plansim
