// SPDX-License-Identifier: Apache-2.0
// Grows a block's operator graph: forward operators in order of execution, each with its backward counterpart, which is
// wired in reverse when the block is finished.
#pragma once

#include <vector>

#include "sim/graph/block.hpp"

namespace plansim {

class BlockBuilder {
  public:
    using Vertex = OperatorGraph::vertex_descriptor;

    /// Adds a forward operator that reads the outputs of `inputs`, and the backward operators that undo it, listed in
    /// order of execution. Returns the forward vertex.
    Vertex add(const Operator& forward, std::vector<Operator> backward, const std::vector<Vertex>& inputs, Bytes bytes);

    /// Product of activations (tokens x k) with weights (k x n): adds data and weight gradient products.
    Vertex gemm(const std::string& name, MatrixShape shape, std::int64_t bias, const std::vector<Vertex>& inputs,
                bool head = false);
    /// Memory-bound operator with given traffic each way.
    Vertex elementwise(const std::string& name, double forward_bytes, double backward_bytes, std::int64_t parameters,
                       double saved_bytes, const std::vector<Vertex>& inputs,
                       OperatorKind kind = OperatorKind::elementwise, std::int64_t elements = 0);
    /// Collective over a group of ranks, and the one that undoes it.
    Vertex collective(const std::string& name, CollectiveKind forward, CollectiveKind backward, Bytes size,
                      const std::vector<Vertex>& inputs, Axis axis = Axis::tp);
    /// Collective of the backward pass only, executed before the backward operators of `after`'s input.
    void backward_collective(const std::string& name, CollectiveKind kind, Bytes size, Vertex at, Axis axis = Axis::tp);

    /// All-to-all that brings tokens to their experts, or back; the backward pass sends them the other way.
    Vertex exchange(const std::string& name, Bytes tokens, std::int64_t top_k, const std::vector<Vertex>& inputs);
    /// Operators added from now on belong to these modules of selective recomputation.
    void modules(RecomputeModules modules) { modules_ = modules; }
    /// Products added from now on are those of experts.
    void experts(bool experts) { experts_ = experts; }
    /// Products added from now on have no weight gradient.
    void freeze() { frozen_ = true; }
    Operator& at(Vertex vertex) { return graph_[vertex]; }
    /// Elements that a backward pass of `vertex` casts to a narrow format in fp8 training.
    void quantise(Vertex vertex, std::int64_t forward, std::int64_t backward);
    /// Wires the backward pass and hands over the graph.
    OperatorGraph finish();

  private:
    OperatorGraph graph_;
    RecomputeModules modules_ = 0;
    bool experts_ = false;
    bool frozen_ = false;
    std::vector<std::pair<Vertex, std::vector<Vertex>>> backward_of_;  // forward vertex -> its backward chain
};

}  // namespace plansim
