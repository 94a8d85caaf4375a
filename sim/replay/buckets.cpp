// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/buckets.hpp"

#include <algorithm>

namespace plansim {
namespace {

// Megatron-Core's default: buckets grow with the ranks, so that their latency does not come to dominate.
constexpr std::int64_t kBucketParametersPerRank = 1'000'000;

/// Collects consecutive units until they hold enough parameters.
class Packer {
  public:
    Packer(CostModel& model, const Plan& plan, int stage, StageBuckets& result)
        : model_(model), plan_(plan), stage_(stage), result_(result) {}

    void close(CollectiveKind kind, std::int64_t parameters) {
        if (parameters == 0) return;
        Bucket bucket;
        bucket.kind = kind;
        bucket.size = kind == CollectiveKind::all_gather ? parameter_message(parameters)
                                                         : gradient_message(model_.scenario().software, parameters);
        bucket.estimate = model_.dp_time(kind, plan_, stage_, bucket.size);
        result_.buckets.push_back(bucket);
    }
    [[nodiscard]] int next_index() const { return static_cast<int>(result_.buckets.size()); }

  private:
    CostModel& model_;
    const Plan& plan_;
    int stage_;
    StageBuckets& result_;
};

std::int64_t unit_parameters(CostModel& model, const Plan& plan, int stage, std::int64_t index) {
    return model.unit(index, plan, plan.recompute[static_cast<std::size_t>(stage)]).parameters;
}

}  // namespace

StageBuckets make_buckets(CostModel& model, const Plan& plan, int stage) {
    StageBuckets result;
    const auto& chunks = plan.stages[static_cast<std::size_t>(stage)];
    for (const ChainRange& range : chunks) {
        result.gather_of_unit.emplace_back(static_cast<std::size_t>(range.size()), -1);
        result.reduce_of_unit.emplace_back(static_cast<std::size_t>(range.size()), -1);
    }
    if (plan.data_ranks() == 1) return result;
    const Software& software = model.scenario().software;
    const std::int64_t least = std::max(software.bucket_parameters, kBucketParametersPerRank * plan.data_ranks());
    const auto reduction = plan.zero >= 1 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    Packer packer(model, plan, stage, result);
    if (!software.dp_overlap) {
        std::int64_t total = 0;
        for (const ChainRange& range : chunks)
            for (std::int64_t index = range.first; index < range.last; ++index)
                total += unit_parameters(model, plan, stage, index);
        packer.close(reduction, total);
        if (plan.zero >= 1) packer.close(CollectiveKind::all_gather, total);
        return result;
    }
    if (plan.zero >= 1) {
        for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
            std::int64_t collected = 0;
            std::vector<int*> waiting;  // units of the open bucket that hold parameters
            for (std::int64_t index = chunks[chunk].first; index < chunks[chunk].last; ++index) {
                const std::int64_t parameters = unit_parameters(model, plan, stage, index);
                collected += parameters;
                if (parameters > 0)
                    waiting.push_back(
                        &result.gather_of_unit[chunk][static_cast<std::size_t>(index - chunks[chunk].first)]);
                if (collected == 0 || (collected < least && index + 1 < chunks[chunk].last)) continue;
                for (int* unit : waiting)
                    *unit = packer.next_index();
                waiting.clear();
                packer.close(CollectiveKind::all_gather, collected);
                collected = 0;
            }
        }
    }
    result.gathers = result.buckets.size();
    for (std::size_t chunk = chunks.size(); chunk-- > 0;) {
        std::int64_t collected = 0;
        for (std::int64_t index = chunks[chunk].last; index-- > chunks[chunk].first;) {
            collected += unit_parameters(model, plan, stage, index);
            if (collected == 0 || (collected < least && index > chunks[chunk].first)) continue;
            result.reduce_of_unit[chunk][static_cast<std::size_t>(index - chunks[chunk].first)] = packer.next_index();
            packer.close(reduction, collected);
            collected = 0;
        }
    }
    return result;
}

}  // namespace plansim
