// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/buckets.hpp"

#include <algorithm>

namespace plansim {
namespace {

// Megatron-Core's default: buckets grow with the ranks, so that their latency does not come to dominate.
constexpr std::int64_t kBucketParametersPerRank = 1'000'000;

class BucketMaker {
  public:
    BucketMaker(CostModel& model, const Plan& plan, int stage)
        : model_(model),
          plan_(plan),
          stage_(stage),
          software_(model.scenario().software),
          chunks_(plan.stages[static_cast<std::size_t>(stage)]) {
        for (const ChainRange& range : chunks_)
            result_.units.emplace_back(static_cast<std::size_t>(range.size()));
    }

    StageBuckets make() {
        const bool sharded = plan_.zero == 3;
        result_.gathers_every_forward = gathers_every_pass(plan_);
        result_.reduces_every_backward = reduces_every_pass(plan_);
        if (sharded) {
            make_sharded();
        } else if (!software_.dp_overlap) {
            make_at_end();
        } else {
            gather_in_forward_order();
            reduce_in_backward_order();
        }
        return std::move(result_);
    }

  private:
    const UnitCost& cost(std::int64_t index) { return model_.unit(index, plan_, stage_); }
    UnitBuckets& unit(std::size_t chunk, std::int64_t index) {
        return result_.units[chunk][static_cast<std::size_t>(index - chunks_[chunk].first)];
    }

    /// Appends one bucket for each collective; returns the indices of those that start by themselves.
    std::vector<int> append(const std::vector<DataCollective>& collectives, bool reduces, Seconds* total = nullptr) {
        std::vector<int> indices;
        for (const DataCollective& collective : collectives) {
            const int index = static_cast<int>(result_.buckets.size());
            Bucket bucket;
            bucket.collective = collective;
            bucket.reduces = reduces;
            bucket.estimate = model_.dp_time(collective.kind, collective.group, plan_, stage_, collective.size);
            if (total != nullptr) *total += bucket.estimate;
            if (collective.group == DataGroup::copies)
                result_.buckets.back().then = index;  // of what the reduce-scatter before it has left
            else
                indices.push_back(index);
            result_.buckets.push_back(bucket);
        }
        return indices;
    }

    void run_every_microbatch(const std::vector<int>& buckets, bool every) {
        for (const int bucket : buckets)
            result_.buckets[static_cast<std::size_t>(bucket)].every_microbatch = every;
    }

    void make_at_end() {
        DataParameters all;
        for (const ChainRange& range : chunks_)
            for (std::int64_t index = range.first; index < range.last; ++index)
                all.add(cost(index));
        const std::vector<int> reduced = append(reductions(plan_, software_, all), true);
        // The backward pass ends with the first unit of the first chunk.
        (result_.reduces_every_backward ? result_.units.front().front().reduced : result_.at_end) = reduced;
        result_.after_optimizer = append(gatherings(plan_, software_, all), false);
    }

    /// FSDP: every unit by itself, the next one prefetched while one computes. The last unit of the forward pass is
    /// still whole when the backward pass starts with it.
    void make_sharded() {
        std::vector<int>* prefetch = nullptr;
        for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk, prefetch = nullptr)
            for (std::int64_t index = chunks_[chunk].first; index < chunks_[chunk].last; ++index) {
                DataParameters parameters;
                parameters.add(cost(index));
                UnitBuckets& own = unit(chunk, index);
                own.gathered_forward = append(gatherings(plan_, software_, parameters), false, &own.beside_forward);
                run_every_microbatch(own.gathered_forward, result_.gathers_every_forward);
                // The first unit of a chunk, and every unit without overlap, is gathered when its turn has come.
                const bool early = software_.dp_overlap && prefetch != nullptr;
                std::vector<int>& when = early ? *prefetch : own.prefetch_forward;
                when.insert(when.end(), own.gathered_forward.begin(), own.gathered_forward.end());
                prefetch = &own.prefetch_forward;
            }
        for (std::size_t chunk = chunks_.size(); chunk-- > 0;) {
            prefetch = nullptr;
            for (std::int64_t index = chunks_[chunk].last; index-- > chunks_[chunk].first;) {
                DataParameters parameters;
                parameters.add(cost(index));
                UnitBuckets& own = unit(chunk, index);
                if (gathers_again(plan_) && prefetch != nullptr) {
                    own.gathered_backward =
                        append(gatherings(plan_, software_, parameters), false, &own.beside_backward);
                    run_every_microbatch(own.gathered_backward, true);
                    std::vector<int>& when = software_.dp_overlap ? *prefetch : own.prefetch_backward;
                    when.insert(when.end(), own.gathered_backward.begin(), own.gathered_backward.end());
                }
                prefetch = &own.prefetch_backward;
                own.reduced = append(reductions(plan_, software_, parameters), true, &own.beside_reduction);
            }
        }
    }

    [[nodiscard]] std::int64_t least_parameters() const {
        return std::max(software_.bucket_parameters, kBucketParametersPerRank * plan_.data_ranks());
    }

    /// Consecutive units of one chunk that share buckets.
    struct Pack {
        DataParameters parameters;
        std::vector<UnitBuckets*> units;
        std::vector<double> weights;  // parameters of each unit
        [[nodiscard]] std::int64_t size() const { return parameters.dense + parameters.experts; }
    };
    void add(Pack& pack, std::size_t chunk, std::int64_t index) {
        const UnitCost& own = cost(index);
        if (own.parameters == 0) return;
        pack.parameters.add(own);
        pack.units.push_back(&unit(chunk, index));
        pack.weights.push_back(static_cast<double>(own.parameters));
    }
    static void spread(const Pack& pack, Seconds total, Seconds UnitBuckets::*beside) {
        for (std::size_t index = 0; index < pack.units.size(); ++index)
            pack.units[index]->*beside += total * (pack.weights[index] / static_cast<double>(pack.size()));
    }

    void gather_in_forward_order() {
        for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
            Pack pack;
            for (std::int64_t index = chunks_[chunk].first; index < chunks_[chunk].last; ++index) {
                add(pack, chunk, index);
                const bool last = index + 1 == chunks_[chunk].last;
                if (pack.size() == 0 || (pack.size() < least_parameters() && !last)) continue;
                Seconds total;
                const std::vector<int> made = append(gatherings(plan_, software_, pack.parameters), false, &total);
                for (UnitBuckets* unit : pack.units)
                    unit->gathered_forward = made;
                result_.at_start.insert(result_.at_start.end(), made.begin(), made.end());
                spread(pack, total, &UnitBuckets::beside_forward);
                pack = Pack{};
            }
        }
    }

    void reduce_in_backward_order() {
        for (std::size_t chunk = chunks_.size(); chunk-- > 0;) {
            Pack pack;
            for (std::int64_t index = chunks_[chunk].last; index-- > chunks_[chunk].first;) {
                add(pack, chunk, index);
                const bool last = index == chunks_[chunk].first;
                if (pack.size() == 0 || (pack.size() < least_parameters() && !last)) continue;
                Seconds total;
                unit(chunk, index).reduced = append(reductions(plan_, software_, pack.parameters), true, &total);
                spread(pack, total, &UnitBuckets::beside_reduction);
                pack = Pack{};
            }
        }
    }

    CostModel& model_;
    const Plan& plan_;
    int stage_;
    const Software& software_;
    const std::vector<ChainRange>& chunks_;
    StageBuckets result_;
};

}  // namespace

StageBuckets make_buckets(CostModel& model, const Plan& plan, int stage) {
    return BucketMaker(model, plan, stage).make();
}

}  // namespace plansim
