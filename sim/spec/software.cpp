// SPDX-License-Identifier: Apache-2.0
#include "sim/spec/software.hpp"

#include <array>

#include "sim/spec/yaml_writer.hpp"

namespace plansim {
namespace {

constexpr std::array<std::pair<std::string_view, AttentionImplementation>, 2> kAttention{
    {{"fused", AttentionImplementation::fused}, {"materialised", AttentionImplementation::materialised}}};

// Every field of the profile once, for the reader and the writer: Visitor has amount, share, flag, count, time, bytes.
template <class Profile, class Visitor>
void visit_fields(Profile& profile, Visitor&& visit) {
    visit.amount("unfused_attention_traffic", profile.unfused_attention_traffic);
    visit.amount("elementwise_traffic", profile.elementwise_traffic);
    visit.amount("permutation_traffic", profile.permutation_traffic);
    visit.amount("loss_traffic", profile.loss_traffic);
    visit.amount("optimizer_traffic", profile.optimizer_traffic);
    visit.amount("cast_traffic", profile.cast_traffic);
    visit.amount("mx_cast_traffic", profile.mx_cast_traffic);
    visit.amount("fp4_cast_traffic", profile.fp4_cast_traffic);
    visit.amount("norm_bytes", profile.norm_bytes);
    visit.amount("fsdp_copy_bytes", profile.fsdp_copy_bytes);
    visit.amount("accumulation_bytes", profile.accumulation_bytes);
    visit.amount("forward_kernels", profile.forward_kernels);
    visit.amount("backward_kernels", profile.backward_kernels);
    visit.flag("dropout", profile.dropout);
    visit.time("layer_host_time", profile.layer_host_time);
    visit.time("moe_host_time", profile.moe_host_time);
    visit.time("expert_host_time", profile.expert_host_time);
    visit.time("softmax_host_time", profile.softmax_host_time);
    visit.time("blocking_time", profile.blocking_time);
    visit.amount("host_growth", profile.host_growth);
    visit.share("cuda_graphs", profile.cuda_graphs);
    visit.time("iteration_time", profile.iteration_time);
    visit.amount("straggler_growth", profile.straggler_growth);
    visit.flag("tp_overlap", profile.tp_overlap);
    visit.share("tp_overlap_share", profile.tp_overlap_share);
    visit.share("cp_overlap_share", profile.cp_overlap_share);
    visit.time("cp_step_time", profile.cp_step_time);
    visit.share("expert_overlap_share", profile.expert_overlap_share);
    visit.share("dp_overlap_share", profile.dp_overlap_share);
    visit.flag("dp_overlap", profile.dp_overlap);
    visit.amount("bucket_parameters", profile.bucket_parameters);
    visit.flag("pp_overlap", profile.pp_overlap);
    visit.amount("overlap_slowdown", profile.overlap_slowdown);
    visit.time("owner_time", profile.owner_time);
    visit.share("offload_exposed", profile.offload_exposed);
    visit.flag("scatter_gather_p2p", profile.scatter_gather_p2p);
    visit.count("gradient_bytes", profile.gradient_bytes);
    visit.count("gradient_reduce_bytes", profile.gradient_reduce_bytes);
    visit.amount("gathered_bytes", profile.gathered_bytes);
    visit.amount("state_bytes", profile.state_bytes);
    visit.flag("gradient_placeholders", profile.gradient_placeholders);
    visit.amount("norm_copy_bytes", profile.norm_copy_bytes);
    visit.flag("fused_activation", profile.fused_activation);
    visit.amount("score_bytes", profile.score_bytes);
    visit.amount("logit_bytes", profile.logit_bytes);
    visit.flag("parallel_loss", profile.parallel_loss);
    visit.bytes("context", profile.context);
    visit.amount("fragmentation", profile.fragmentation);
    visit.share("memory_headroom", profile.memory_headroom);
    visit.flag("sequence_parallel", profile.sequence_parallel);
    visit.count("zero", profile.zero);
}

struct FieldReader {
    Reader& map;
    void amount(std::string_view key, double& value) { value = map.number_or(key, value, Range::not_negative()); }
    void share(std::string_view key, double& value) { value = map.number_or(key, value, Range::share()); }
    void amount(std::string_view key, std::int64_t& value) { value = map.integer_or(key, value, Range{0, 1e15}); }
    void flag(std::string_view key, bool& value) { value = map.flag_or(key, value); }
    void count(std::string_view key, std::int64_t& value) { value = map.integer_or(key, value, Range{0, 16}); }
    void time(std::string_view key, Seconds& value) {
        value = map.quantity_or<Seconds>(key, value, Range::not_negative());
    }
    void bytes(std::string_view key, Bytes& value) {
        value = map.quantity_or<Bytes>(key, value, Range::not_negative());
    }
};

struct FieldWriter {
    YamlWriter& out;
    void amount(std::string_view key, double value) { out.number(key, value); }
    void share(std::string_view key, double value) { out.number(key, value); }
    void amount(std::string_view key, std::int64_t value) { out.integer(key, value); }
    void flag(std::string_view key, bool value) { out.flag(key, value); }
    void count(std::string_view key, std::int64_t value) { out.integer(key, value); }
    void time(std::string_view key, Seconds value) { out.quantity(key, value); }
    void bytes(std::string_view key, Bytes value) { out.quantity(key, value); }
};

}  // namespace

Software read_software(Reader document) {
    Software profile;
    document.integer("format", Range{1, 1});
    profile.name = document.text("name");
    profile.attention = document.one_of_or<AttentionImplementation>("attention", kAttention, profile.attention);
    profile.attention_kernel = document.text("attention_kernel", profile.attention_kernel);
    visit_fields(profile, FieldReader{document});
    document.finish();
    return profile;
}

std::string to_yaml(const Software& profile) {
    YamlWriter out;
    out.integer("format", 1);
    out.text("name", profile.name);
    for (const auto& [name, value] : kAttention)
        if (value == profile.attention) out.text("attention", name);
    out.text("attention_kernel", profile.attention_kernel);
    visit_fields(profile, FieldWriter{out});
    return out.str();
}

}  // namespace plansim
