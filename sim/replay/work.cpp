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
        const std::int64_t passes = plan_.shape().passes();
        const bool gathers = any_unit([](const UnitBuckets& unit) { return !unit.gathered_forward.empty(); });
        const bool gathers_again = any_unit([](const UnitBuckets& unit) { return !unit.gathered_backward.empty(); });
        const bool reduces = any_unit([](const UnitBuckets& unit) { return !unit.reduced.empty(); });
        const bool first = gathers && !buckets_.gathers_every_forward;
        const bool every = reduces && buckets_.reduces_every_backward;
        const bool last = reduces && !every;
        const std::int64_t others = passes - (last ? 1 : 0);
        work.forward = pass(PassKind::forward, {gathers && !first, false}, passes - (first ? 1 : 0));
        if (first) work.first_forward = pass(PassKind::forward, {true, false}, 1);
        if (splits_backward(plan_.schedule)) {
            work.backward_input = pass(PassKind::backward_input, {gathers_again, false}, passes);
            work.backward_weight = pass(PassKind::backward_weight, {false, every}, others);
            if (last) work.last_weight = pass(PassKind::backward_weight, {false, true}, 1);
        } else {
            work.backward = pass(PassKind::backward, {gathers_again, every}, others);
            if (last) work.last_backward = pass(PassKind::backward, {gathers_again, true}, 1);
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
    const UnitCost& unit(std::int64_t index) { return model_.unit(index, plan_, stage_); }
    template <class Predicate>
    [[nodiscard]] bool any_unit(Predicate predicate) const {
        return std::any_of(buckets_.units[chunk_].begin(), buckets_.units[chunk_].end(), predicate);
    }

    /// Which data-parallel collectives run beside a pass.
    struct Window {
        bool gathers = false;
        bool reduces = false;
        [[nodiscard]] bool open() const { return gathers || reduces; }
    };

    /// Steps of one pass, executed `repeats` times in the iteration.
    Work pass(PassKind kind, Window window, std::int64_t repeats) {
        Work work;
        const bool backward = kind != PassKind::forward;
        const auto units = static_cast<std::size_t>(range().size());
        const bool split = fidelity_ == Fidelity::layer || window.open();
        if (!split) work.emplace_back();
        for (std::size_t turn = 0; turn < units; ++turn) {
            const std::size_t position = backward ? units - 1 - turn : turn;
            const UnitCost& cost = unit(range().first + static_cast<std::int64_t>(position));
            const UnitBuckets& buckets = buckets_.units[chunk_][position];
            if (split) work.emplace_back();
            if (window.gathers) {
                work.back().await = backward ? buckets.gathered_backward : buckets.gathered_forward;
                work.back().prefetch = backward ? buckets.prefetch_backward : buckets.prefetch_forward;
            }
            slow_down(work.back(), window, buckets, cost, kind);
            if (recomputes(kind)) add_phase(work, cost.recompute, TimeClass::recompute, window.open(), repeats);
            add_phase(work, phase_of(cost, kind), TimeClass::compute, window.open(), repeats);
            if (window.reduces) reduce(work, buckets.reduced);
        }
        return work;
    }

    /// Lets reductions start; without overlap what follows waits for their end.
    void reduce(Work& work, const std::vector<int>& buckets) {
        if (buckets.empty()) return;
        work.back().release = buckets;
        if (model_.scenario().software.dp_overlap) return;
        work.emplace_back();
        for (const int bucket : buckets) {
            const int then = buckets_.buckets[static_cast<std::size_t>(bucket)].then;
            work.back().await.push_back(then >= 0 ? then : bucket);
        }
    }

    static bool recomputes(PassKind kind) { return kind == PassKind::backward || kind == PassKind::backward_input; }
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
        const auto exposed_class = [](Axis axis) {
            return axis == Axis::tp   ? TimeClass::tp_exposed
                   : axis == Axis::cp ? TimeClass::cp_exposed
                                      : TimeClass::ep_exposed;
        };
        Seconds ring_steps = phase.cp_exposed;  // what is exposed beyond the transfers themselves
        for (const UnitCollective& call : phase.collectives) {
            // Exchanges of experts join several workers, which are in step with each other: they run as delays.
            const bool flow = flows && call.axis != Axis::ep;
            CollectiveCount& count = counts_[{call.axis, call.kind, call.size.value(), call.top_k}];
            (flow ? count.as_flow : count.as_delay) += repeats;
            if (fidelity_ == Fidelity::layer) work.emplace_back();
            WorkStep& step = work.back();
            if (flow) {
                // The hidden part of the collective runs beside a slice of the compute time.
                const Seconds slice = std::min(call.hidden, work[first].shares[compute_class]);
                work[first].shares[compute_class] -= slice;
                step.shares[compute_class] += slice;
                step.flow = &call;
            } else {
                step.shares[exposed_class(call.axis)] += call.time - call.hidden;
            }
            if (call.axis == Axis::cp) ring_steps -= call.time - call.hidden;
        }
        work[first].shares[TimeClass::cp_exposed] += std::max(ring_steps, Seconds(0));
    }

    /// Compute beside data-parallel collectives is slower.
    void slow_down(WorkStep& step, Window window, const UnitBuckets& buckets, const UnitCost& cost, PassKind kind) {
        const Software& software = model_.scenario().software;
        if (!software.dp_overlap) return;
        const bool backward = kind != PassKind::forward;
        Seconds beside;
        if (window.gathers) beside += backward ? buckets.beside_backward : buckets.beside_forward;
        if (window.reduces) beside += buckets.beside_reduction;
        Seconds compute = phase_of(cost, kind).total();
        if (recomputes(kind)) compute += cost.recompute.total();
        const Seconds lost = std::min(beside, compute) * software.overlap_slowdown;
        const bool always = backward || buckets_.gathers_every_forward;
        (always ? step.shares[TimeClass::compute] : step.beside_gathers) += lost;
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
    DataParameters parameters;
    Seconds pass;
    const auto& chunks = plan.stages[static_cast<std::size_t>(stage)];
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        work.chunks.push_back(
            ChunkBuilder(model, plan, stage, chunk, buckets, fidelity, contention, work.collectives).build());
        for (std::int64_t index = chunks[chunk].first; index < chunks[chunk].last; ++index) {
            const UnitCost& cost = model.unit(index, plan, stage);
            parameters.add(cost);
            pass += cost.forward.total() + cost.backward.total() + cost.recompute.total();
        }
    }
    const OuterStep outer = outer_step(model, plan, stage, parameters, pass);
    WorkStep optimizer;
    optimizer.shares[TimeClass::optimizer] =
        model.optimizer_time(plan, parameters.trained, parameters.trained_experts) + outer.optimizer;
    optimizer.shares[TimeClass::dp_exposed] = outer.exposed;
    WorkStep host;
    host.shares[TimeClass::other] = step_host_time(model.scenario().software, plan);
    optimizer.release = buckets.after_optimizer;  // once the parameters are new
    host.await = buckets.after_optimizer;
    work.finish = {optimizer, host};
    return work;
}

}  // namespace plansim
