// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/builder.hpp"

#include <map>

namespace plansim {

BlockBuilder::Vertex BlockBuilder::add(const Operator& forward, std::vector<Operator> backward,
                                       const std::vector<Vertex>& inputs, Bytes bytes) {
    const Vertex vertex = boost::add_vertex(forward, graph_);
    graph_[vertex].modules = modules_;
    for (const Vertex input : inputs)
        boost::add_edge(input, vertex, Dependency{bytes}, graph_);
    std::vector<Vertex> chain;
    for (Operator& op : backward) {
        op.pass = Pass::backward;
        chain.push_back(boost::add_vertex(op, graph_));
        if (chain.size() > 1) boost::add_edge(chain[chain.size() - 2], chain.back(), Dependency{bytes}, graph_);
    }
    backward_of_.emplace_back(vertex, std::move(chain));
    return vertex;
}

BlockBuilder::Vertex BlockBuilder::gemm(const std::string& name, MatrixShape shape, std::int64_t bias,
                                        const std::vector<Vertex>& inputs, bool head) {
    const auto make = [&](const std::string& suffix, MatrixShape s, double bytes_per_output) {
        const auto batch = static_cast<double>(s.batch);
        const auto m = static_cast<double>(s.m);
        const auto n = static_cast<double>(s.n);
        const auto k = static_cast<double>(s.k);
        Operator op;
        op.name = name + suffix;
        op.kind = OperatorKind::gemm;
        op.shape = s;
        op.head_gemm = head;
        op.flops = s.flops();
        op.read = Bytes::rounded(2 * batch * (m * k + k * n));
        op.written = Bytes::rounded(bytes_per_output * batch * m * n);
        return op;
    };
    Operator forward = make("", shape, 2);
    forward.parameters = shape.batch * (shape.k * shape.n + bias);
    forward.expert = experts_;
    const Bytes output = forward.written;
    // The weight gradient is accumulated in fp32: 4 bytes read and 4 written per element.
    Operator data = make(".data_gradient", {shape.batch, shape.m, shape.k, shape.n}, 2);
    Operator weight = make(".weight_gradient", {shape.batch, shape.n, shape.k, shape.m}, 8);
    if (frozen_) return add(forward, {data}, inputs, output);
    weight.weight_share = 1;
    return add(forward, {data, weight}, inputs, output);
}

BlockBuilder::Vertex BlockBuilder::elementwise(const std::string& name, double forward_bytes, double backward_bytes,
                                               std::int64_t parameters, double saved_bytes,
                                               const std::vector<Vertex>& inputs, OperatorKind kind,
                                               std::int64_t elements) {
    const auto make = [&](const std::string& suffix, double bytes) {
        Operator op;
        op.name = name + suffix;
        op.kind = kind;
        op.shape.m = elements;
        op.read = Bytes::rounded(bytes / 2);
        op.written = Bytes::rounded(bytes - bytes / 2);
        return op;
    };
    Operator forward = make("", forward_bytes);
    forward.parameters = parameters;
    forward.saved = Bytes::rounded(saved_bytes);
    const Bytes output = forward.written;
    return add(forward, {make(".gradient", backward_bytes)}, inputs, output);
}

BlockBuilder::Vertex BlockBuilder::collective(const std::string& name, CollectiveKind forward, CollectiveKind backward,
                                              Bytes size, const std::vector<Vertex>& inputs, Axis axis) {
    const auto make = [&](const std::string& suffix, CollectiveKind kind) {
        Operator op;
        op.name = name + suffix;
        op.kind = OperatorKind::collective;
        op.axis = axis;
        op.collective = kind;
        op.size = size;
        return op;
    };
    return add(make("", forward), {make(".gradient", backward)}, inputs, size);
}

BlockBuilder::Vertex BlockBuilder::exchange(const std::string& name, Bytes tokens, std::int64_t top_k,
                                            const std::vector<Vertex>& inputs) {
    Operator forward;
    forward.name = name;
    forward.kind = OperatorKind::collective;
    forward.axis = Axis::ep;
    forward.collective = CollectiveKind::all_to_all;
    forward.size = tokens;
    forward.top_k = top_k;
    Operator backward = forward;
    backward.name += ".gradient";
    return add(forward, {backward}, inputs, tokens);
}

void BlockBuilder::backward_collective(const std::string& name, CollectiveKind kind, Bytes size, Vertex at, Axis axis) {
    Operator op;
    op.name = name;
    op.axis = axis;
    op.kind = OperatorKind::collective;
    op.pass = Pass::backward;
    op.collective = kind;
    op.size = size;
    const Vertex vertex = boost::add_vertex(op, graph_);
    for (auto& [forward, chain] : backward_of_) {
        if (forward != at) continue;
        if (!chain.empty()) boost::add_edge(chain.back(), vertex, Dependency{size}, graph_);
        chain.push_back(vertex);
    }
}

void BlockBuilder::quantise(Vertex vertex, std::int64_t forward, std::int64_t backward) {
    graph_[vertex].quantised = forward;
    for (const auto& [owner, chain] : backward_of_)
        if (owner == vertex && !chain.empty()) graph_[chain.front()].quantised = backward;
}

OperatorGraph BlockBuilder::finish() {
    std::map<Vertex, const std::vector<Vertex>*> chain_of;
    for (const auto& [vertex, chain] : backward_of_)
        chain_of[vertex] = &chain;
    std::vector<std::pair<Vertex, Vertex>> wires;
    for (const auto& [vertex, chain] : backward_of_) {
        if (chain.empty()) continue;
        wires.emplace_back(vertex, chain.front());  // what was saved
        // The gradient of an output arrives from every consumer of that output; one without a backward pass (an
        // all-reduce, whose gradient is the identity) hands it through.
        std::vector<Vertex> producers{vertex};
        while (!producers.empty()) {
            const Vertex producer = producers.back();
            producers.pop_back();
            for (const auto edge : boost::make_iterator_range(boost::out_edges(producer, graph_))) {
                const auto consumer = chain_of.find(boost::target(edge, graph_));
                if (consumer == chain_of.end()) continue;
                if (consumer->second->empty())
                    producers.push_back(consumer->first);
                else
                    wires.emplace_back(consumer->second->back(), chain.front());
            }
        }
    }
    for (const auto& [from, to] : wires)
        boost::add_edge(from, to, Dependency{graph_[from].written}, graph_);
    OperatorGraph graph;
    graph.swap(graph_);
    return graph;
}

}  // namespace plansim
