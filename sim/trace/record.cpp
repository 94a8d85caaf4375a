// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/record.hpp"

namespace plansim {

std::string_view name_of(TimeClass time_class) {
    switch (time_class) {
        case TimeClass::compute:
            return "compute";
        case TimeClass::recompute:
            return "recompute";
        case TimeClass::tp_exposed:
            return "tp_exposed";
        case TimeClass::cp_exposed:
            return "cp_exposed";
        case TimeClass::ep_exposed:
            return "ep_exposed";
        case TimeClass::pp_exposed:
            return "pp_exposed";
        case TimeClass::bubble:
            return "bubble";
        case TimeClass::dp_exposed:
            return "dp_exposed";
        case TimeClass::optimizer:
            return "optimizer";
        case TimeClass::throttle_loss:
            return "throttle_loss";
        case TimeClass::other:
            return "other";
    }
    return "?";
}

std::string_view name_of(SliceKind kind) {
    switch (kind) {
        case SliceKind::forward:
            return "forward";
        case SliceKind::backward:
            return "backward";
        case SliceKind::backward_input:
            return "backward input";
        case SliceKind::backward_weight:
            return "backward weight";
        case SliceKind::send_forward:
            return "send activations";
        case SliceKind::send_backward:
            return "send gradients";
        case SliceKind::reduce_gradients:
            return "reduce gradients";
        case SliceKind::gather_parameters:
            return "gather parameters";
        case SliceKind::optimizer_step:
            return "optimizer step";
        case SliceKind::host:
            return "host";
    }
    return "?";
}

Seconds Breakdown::total() const {
    Seconds sum;
    for (const Seconds share : shares_)
        sum += share;
    return sum;
}

Breakdown& Breakdown::operator+=(const Breakdown& other) {
    for (std::size_t index = 0; index < kTimeClasses; ++index)
        shares_[index] += other.shares_[index];
    return *this;
}

Breakdown operator*(Breakdown breakdown, double factor) {
    for (Seconds& share : breakdown.shares_)
        share *= factor;
    return breakdown;
}

Seconds Breakdown::busy() const {
    const Breakdown& self = *this;
    return self[TimeClass::compute] + self[TimeClass::recompute] + self[TimeClass::optimizer] +
           self[TimeClass::throttle_loss] + self[TimeClass::other];
}

Seconds Breakdown::communication() const {
    const Breakdown& self = *this;
    return self[TimeClass::tp_exposed] + self[TimeClass::cp_exposed] + self[TimeClass::ep_exposed] +
           self[TimeClass::pp_exposed] + self[TimeClass::dp_exposed];
}

}  // namespace plansim
