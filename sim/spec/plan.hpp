// SPDX-License-Identifier: Apache-2.0
// The plan document: how a workload is laid out over the devices of a platform.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/reader.hpp"
#include "sim/spec/pipeline_shape.hpp"
#include "sim/spec/platform.hpp"
#include "sim/spec/software.hpp"
#include "sim/spec/workload.hpp"

namespace plansim {

enum class Recompute { none, selective, full };
inline constexpr std::array<std::pair<std::string_view, Recompute>, 3> kRecomputeNames{
    {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};
inline constexpr std::array<std::pair<std::string_view, ScheduleKind>, 6> kScheduleNames{
    {{"gpipe", ScheduleKind::gpipe},
     {"1f1b", ScheduleKind::one_f_one_b},
     {"interleaved", ScheduleKind::interleaved},
     {"zb-h1", ScheduleKind::zb_h1},
     {"zb-v", ScheduleKind::zb_v},
     {"dualpipe", ScheduleKind::dualpipe}}};
std::string_view name_of(Recompute recompute);
/// What selective recomputation computes again; bits of Plan::recompute_modules.
enum class RecomputeModule : unsigned {
    core_attn = 1,     // scores and context of attention
    mlp = 2,           // the dense feed-forward
    moe = 4,           // the feed-forward of experts, routing and dispatch included
    moe_act = 8,       // activation function of the experts
    mla_up_proj = 16,  // products out of the latents
    layernorm = 32,    // both norms
    elementwise = 64,  // everything but matrix products
    products = 128     // every second matrix product
};
std::string_view name_of(RecomputeModule module);
using RecomputeModules = unsigned;
constexpr bool contains(RecomputeModules modules, RecomputeModule module) {
    return (modules & static_cast<unsigned>(module)) != 0;
}

/// How context-parallel ranks bring queries and keys of the whole sequence together: keys and values pass round a ring
/// (Liu et al. 2023), or heads are dealt out for the attention core (Jacobs et al. 2023, DeepSpeed-Ulysses).
enum class ContextExchange { ring, all_to_all };
std::string_view name_of(ContextExchange exchange);

/// Consecutive units of the pipeline chain (see Workload::chain_length), first included, last excluded.
struct ChainRange {
    std::int64_t first = 0;
    std::int64_t last = 0;
    [[nodiscard]] std::int64_t size() const { return last - first; }
    friend bool operator==(const ChainRange&, const ChainRange&) = default;
};

/// Coordinates of a rank in the parallel grid.
struct RankCoordinates {
    int tp = 0;
    int cp = 0;
    int dp = 0;
    int pp = 0;
};

struct Plan {
    std::string workload;  // names of the documents that the plan was made for, and hashes of their content
    std::string platform;
    std::string software;
    std::string workload_hash;
    std::string platform_hash;
    std::string software_hash;

    int tp = 1;
    int pp = 1;
    int dp = 1;
    int cp = 1;
    int ep = 1;   // ranks that the experts of a layer are spread over
    int etp = 1;  // tensor-parallel degree inside an expert: 1 or tp
    int vpp = 1;  // chunks (virtual stages) per device
    ContextExchange cp_exchange = ContextExchange::ring;
    bool sequence_parallel = false;
    std::int64_t mbs = 1;
    std::int64_t gbs = 1;
    int zero = 0;  // what data ranks share: 1 optimizer states, 2 gradients too, 3 parameters too (FSDP)
    int fsdp =
        0;  // ranks over which ZeRO shards; the groups of so many hold copies (hybrid sharding). 0: all data ranks
    bool reshard_after_forward = true;  // zero 3: parameters are gathered again for the backward pass
    std::int64_t lora = 0;              // rank of the trained adapters beside frozen weights; 0: everything is trained
    std::int64_t offload = 0;           // layers per stage whose activations wait in the memory of the host
    double offload_optimizer = 0;       // share of the optimizer states that host memory holds and the host updates
    bool offload_weights = false;       // 16-bit weights wait there too and come in before each pass
    std::int64_t outer_steps = 0;       // local SGD: steps between outer ones; 0: gradients are summed every step
    int outer_replicas = 1;             // groups of data ranks that train by themselves in between
    std::int64_t outer_overlap = 0;     // steps that may pass before the outer sum has to be there
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
    std::vector<Recompute> recompute;  // one per stage (pp entries)
    RecomputeModules recompute_modules = static_cast<unsigned>(RecomputeModule::core_attn);  // of selective
    std::vector<std::int64_t> recompute_layers;   // full, per stage: only so many layers of each chunk; 0 or empty: all
    std::vector<std::vector<ChainRange>> stages;  // stages[stage][chunk]; see PipelineShape for the virtual stage
    std::string order = "tp-cp-ep-dp-pp";         // rank order, fastest first; ignored if `devices` is given
    std::vector<std::int64_t> devices;            // explicit device of each rank (rank order tp-cp-ep-dp-pp), or empty
    int idle_devices = 0;                         // of the platform that hold no rank: the last ones

    [[nodiscard]] int ranks() const { return tp * cp * dp * pp; }
    [[nodiscard]] std::int64_t microbatches() const { return gbs / (mbs * dp); }
    /// Ranks that hold the same parameters and share optimizer states under ZeRO; DualPipe has each of them on two
    /// stages, s and pp - 1 - s. Under local SGD those of one outer replica.
    [[nodiscard]] int data_ranks() const { return dp / outer_replicas * cp * copies(); }
    /// Ranks that hold the same experts.
    [[nodiscard]] int expert_data_ranks() const { return tp * data_ranks() / (ep * etp); }
    /// Ranks that share what ZeRO shards; experts have groups of their own.
    [[nodiscard]] int owners() const { return zero == 0 ? 1 : fsdp == 0 ? data_ranks() : fsdp; }
    [[nodiscard]] int expert_owners() const { return zero == 0 ? 1 : std::min(owners(), expert_data_ranks()); }
    [[nodiscard]] std::int64_t recomputed_layers(int stage) const {
        return recompute_layers.empty() ? 0 : recompute_layers[static_cast<std::size_t>(stage)];
    }
    [[nodiscard]] Recompute recompute_at(int stage, std::int64_t chain_index) const;
    [[nodiscard]] int virtual_stages() const { return pp * vpp; }
    [[nodiscard]] int copies() const { return copies_of(schedule); }
    [[nodiscard]] PipelineShape shape() const { return {schedule, pp, vpp, microbatches()}; }
    [[nodiscard]] const ChainRange& range(int virtual_stage) const {
        const PipelineShape where = shape();
        return stages[static_cast<std::size_t>(where.stage_of(virtual_stage))]
                     [static_cast<std::size_t>(where.chunk_of(virtual_stage))];
    }
    /// Device that holds a rank.
    [[nodiscard]] int device_of(const RankCoordinates& rank) const;
    friend bool operator==(const Plan&, const Plan&) = default;
};

/// Reads a plan document or an inline plan, fills in what is left out and checks it against the other documents.
/// Defaults: degrees 1 except dp = devices / (tp * pp * cp), no idle devices, gbs of the workload, schedule 1f1b
/// (interleaved if vpp > 1), vpp 2 for zb-v and dualpipe, recompute none, the profile's sequence_parallel and zero,
/// stages as even as possible, Megatron's rank order.
Plan read_plan(Reader document, const Workload& workload, const Platform& platform, const Software& software);
std::string to_yaml(const Plan& plan, const Workload& workload);
/// The keys of a plan document in order, for any writer.
using PlanValue =
    std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, std::vector<std::string>>;
std::vector<std::pair<std::string, PlanValue>> plan_fields(const Plan& plan, const Workload& workload);
/// Why a plan has too many passes to replay in bounded time and memory; nothing if it has not.
inline constexpr double kMostPasses = 1 << 22;
std::optional<std::string> length_problem(const Plan& plan);
/// "tp=8 pp=4 dp=2 mbs=1 ...": the short name of a plan, readable as an inline plan unless stages are uneven.
std::string summary(const Plan& plan);

/// As even as possible: layers over stages * chunks; embedding and head ride on the first and the last. If layers do
/// not divide, the first and last virtual stages get the smaller share (they also hold embedding and head).
std::vector<std::vector<ChainRange>> even_stages(const Workload& workload, const PipelineShape& shape);

/// Text "{tp: 8, pp: 4}" of an inline plan "tp=8 pp=4"; throws UsageError if it is not a list of KEY=VALUE.
std::string inline_plan_to_yaml(const std::string& text);

/// Stable 64-bit content hash as 16 hexadecimal digits (FNV-1a of the YAML text).
std::string content_hash(const std::string& text);

}  // namespace plansim
