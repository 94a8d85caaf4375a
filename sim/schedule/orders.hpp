// SPDX-License-Identifier: Apache-2.0
// The pass orders by name; private to the module.
#pragma once

#include "sim/schedule/schedule.hpp"

namespace plansim {

std::unique_ptr<PassOrder> make_gpipe(const PipelineShape& shape, int stage);
std::unique_ptr<PassOrder> make_one_f_one_b(const PipelineShape& shape, int stage);
std::unique_ptr<PassOrder> make_interleaved(const PipelineShape& shape, int stage);
std::unique_ptr<PassOrder> make_zb_h1(const PipelineShape& shape, int stage);
std::unique_ptr<PassOrder> make_zb_v(const PipelineShape& shape, int stage);
std::unique_ptr<PassOrder> make_dualpipe(const PipelineShape& shape, int stage);

}  // namespace plansim
