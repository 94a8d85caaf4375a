// SPDX-License-Identifier: Apache-2.0
// Sums over intervals of the chain, transfers and all-reduces as NEST's formula prices them. README.md derives them.
#pragma once

#include "planner/nest/case.hpp"

namespace plansim::nest {

class Costs {
  public:
    /// Keeps references: the case must outlive it.
    Costs(const Case& planned, const Profile& profile);

    [[nodiscard]] const Case& planned() const { return *case_; }
    [[nodiscard]] const Profile& profile() const { return *profile_; }
    [[nodiscard]] std::size_t nodes() const { return profile_->nodes.size(); }
    /// Groups of devices that can each hold one stage.
    [[nodiscard]] std::int64_t groups() const { return case_->devices / profile_->group; }

    // Sums over nodes begin..end-1.
    [[nodiscard]] double forward(std::size_t begin, std::size_t end) const { return forward_[end] - forward_[begin]; }
    [[nodiscard]] double backward(std::size_t begin, std::size_t end) const {
        return backward_[end] - backward_[begin];
    }
    [[nodiscard]] double recompute(std::size_t begin, std::size_t end) const {
        return recompute_[end] - recompute_[begin];
    }
    [[nodiscard]] std::int64_t parameters(std::size_t begin, std::size_t end) const {
        return parameters_[end] - parameters_[begin];
    }
    [[nodiscard]] std::int64_t states(std::size_t begin, std::size_t end) const {
        return states_[end] - states_[begin];
    }
    [[nodiscard]] std::int64_t activations(std::size_t begin, std::size_t end) const {
        return activations_[end] - activations_[begin];
    }
    /// Bytes that enter before node `cut`; 0 at both ends of the chain.
    [[nodiscard]] std::int64_t boundary(std::size_t cut) const { return profile_->boundary[cut]; }

    /// Time to hand the tensor before node `cut` over at a level: up and down beyond level 0, never faster than a level
    /// further in. 0 at both ends of the chain.
    [[nodiscard]] double transfer(std::size_t cut, std::size_t level) const;
    /// Level between the nearest devices of two groups, which are numbered along the devices.
    [[nodiscard]] std::size_t level_of_groups(std::int64_t a, std::int64_t b) const;
    /// All-reduce of `bytes` among `copies` groups that lie within one group of `level`; 0 for one copy.
    [[nodiscard]] double all_reduce(std::int64_t copies, std::int64_t bytes, std::size_t level) const;

  private:
    const Case* case_;
    const Profile* profile_;
    std::vector<double> forward_, backward_, recompute_;
    std::vector<std::int64_t> parameters_, states_, activations_;
    std::vector<double> bandwidth_;  // not rising with the level
};

}  // namespace plansim::nest
