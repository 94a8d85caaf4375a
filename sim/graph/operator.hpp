// SPDX-License-Identifier: Apache-2.0
// The operators of one unit of the pipeline chain (embedding, transformer layer, head, or a node of an explicit graph)
// as a directed acyclic graph, forward and backward, as one rank executes them for one microbatch.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <string>

#include "sim/base/units.hpp"
#include "sim/spec/collective_kind.hpp"
#include "sim/spec/plan.hpp"

namespace plansim {

enum class OperatorKind { gemm, attention, elementwise, permutation, norm, embedding, loss, generic, collective };
enum class Pass { forward, backward };
/// Which group of ranks a collective of a unit joins.
enum class Axis { tp, cp, ep };
inline constexpr std::size_t kAxes = 3;

/// `batch` products of (m x k) by (k x n); the experts of a mixture are one such batch.
struct MatrixShape {
    std::int64_t batch = 1;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    [[nodiscard]] Flops flops() const {
        return Flops(2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
                     static_cast<double>(k));
    }
};

/// All amounts are those of one rank and one microbatch.
struct Operator {
    std::string name;
    OperatorKind kind = OperatorKind::elementwise;
    Pass pass = Pass::forward;
    MatrixShape shape;       // gemm; attention: batch x heads, queries, keys, head dim; norm: m elements
    bool head_gemm = false;  // gemm against the vocabulary: kept in 16 bit when the model trains in fp8
    Flops flops;             // executed; element-wise operators count none
    Bytes read;              // least HBM traffic, before a framework's multiplier
    Bytes written;
    std::int64_t parameters = 0;   // owned (forward operators only)
    double weight_share = 0;       // part of the work that computes weight gradients: a split backward pass delays it
    Bytes saved;                   // kept from the forward to the backward pass
    Bytes recomputable;            // part of `saved` that selective recomputation drops
    RecomputeModules modules = 0;  // names under which selective recomputation knows it (forward operators only)
    bool expert = false;           // its parameters are those of experts
    std::int64_t adapter = 0;      // trained parameters beside the frozen ones per unit of LoRA rank
    std::int64_t quantised = 0;    // elements cast to a narrow format if the model trains in fp8
    CollectiveKind collective = CollectiveKind::all_reduce;  // collective
    Axis axis = Axis::tp;                                    // collective
    Bytes size;              // collective: the full tensor; exchange of experts: one copy of the rank's tokens
    std::int64_t top_k = 0;  // exchange of experts: experts that each token visits
};

/// An edge carries the activation that flows from one operator to the next.
struct Dependency {
    Bytes bytes;
};

using OperatorGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Operator, Dependency>;

}  // namespace plansim
