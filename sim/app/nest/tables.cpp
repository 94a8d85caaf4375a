// SPDX-License-Identifier: Apache-2.0
// workloads/nest/*.csv. Rows are found by the bytes of a layer and of the device, since cases carry no name.
#include <algorithm>
#include <sstream>

#include "sim/app/nest/nest.hpp"
#include "sim/app/scenario.hpp"
#include "sim/app/validate/validate.hpp"

namespace plansim {
namespace {

MeasuredTable table_of(const char* name) {
    return read_measured(data_folder() / "workloads" / "nest" / name);
}

bool is_of(const MeasuredRow& row, const nest::Case& planned) {
    const nest::Node& layer = planned.profiles.front().nodes.back();
    return row.required_integer("layer_parameter_bytes") == layer.parameter_bytes &&
           row.required_integer("layer_activation_bytes") == layer.activation_bytes &&
           row.required_integer("memory_bytes") == planned.memory_bytes;
}

}  // namespace

std::vector<nest::Head> nest_heads() {
    std::vector<nest::Head> heads;
    for (const MeasuredRow& row : table_of("heads.csv").rows)
        heads.push_back({row.required_integer("layer_parameter_bytes"), row.required_integer("layer_activation_bytes"),
                         row.required_number("layer_forward"), row.required_number("head_forward"),
                         row.required_number("head_backward"), row.required_integer("head_parameter_bytes"),
                         row.required_integer("logits_bytes")});
    return heads;
}

std::vector<nest::Rival> nest_rivals(const nest::Case& planned) {
    std::vector<nest::Rival> rivals = planned.rivals;
    for (const MeasuredRow& row : table_of("baselines.csv").rows) {
        const std::optional<std::int64_t> devices = row.integer("devices");
        if (!is_of(row, planned) || (devices && *devices != planned.devices)) continue;
        nest::Rival rival{row.text("name"),
                          row.required_integer("pp"),
                          row.required_integer("tp"),
                          row.integer("dp").value_or(0),
                          {}};
        std::istringstream partition(row.text("partition"));
        for (std::int64_t layers = 0; partition >> layers;)
            rival.partition.push_back(layers);
        // A row for this number of devices stands in place of the rule for all of them.
        const auto same = std::find_if(rivals.begin(), rivals.end(),
                                       [&](const nest::Rival& other) { return other.name == rival.name; });
        if (same == rivals.end())
            rivals.push_back(rival);
        else if (devices)
            *same = rival;
    }
    return rivals;
}

}  // namespace plansim
