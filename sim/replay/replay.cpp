// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/cost/memory.hpp"
#include "sim/replay/data_streams.hpp"
#include "sim/replay/event.hpp"
#include "sim/replay/link_bytes.hpp"
#include "sim/replay/work.hpp"

namespace plansim {
namespace {

/// A stage boundary on its way.
struct Transfer {
    std::size_t sender = 0;
    std::size_t receiver = 0;
    Message message{};
    int pending = 0;
};

class Replayer {
  public:
    Replayer(CostModel& model, const Plan& plan, const ReplayOptions& options)
        : model_(model),
          plan_(plan),
          options_(options),
          layout_(plan),
          topology_(model.topology()),
          shape_(plan.shape()),
          engine_(model.topology()) {
        // FSDP without a pipeline: all devices do the same at the same time. The closed forms of all groups together
        // hold, and the collectives of every unit and microbatch need no flows.
        const bool lockstep = plan.pp == 1 && plan.zero == 3;
        folded_ = plan.dp > 1 &&
                  (options.replicas == Replicas::folded || (options.replicas == Replicas::automatic &&
                                                            (lockstep || replicas_are_independent(plan, topology_))));
        participants_ = folded_ ? 1 : plan.dp;
        const Contention contention = lockstep ? Contention{} : unit_contention(plan, topology_);
        // Ranks whose networks are copies of each other: the flows of the first one stand for all.
        if (!lockstep && !contention.always && !contention.with_buckets) rank_links_ = congruent_ranks(plan, topology_);
        simulated_ranks_ = rank_links_ ? 1 : plan.tp;
        const bool alone = plan.pp == 1 && !contention.always && !contention.with_buckets;
        streams_.emplace(model, plan, engine_, DataStreams::Extent{participants_, simulated_ranks_, folded_, alone});
        for (int stage = 0; stage < plan.pp; ++stage) {
            memory_.push_back(stage_memory(model, plan, stage));
            stages_.push_back(
                make_stage_work(model, plan, stage, streams_->laid_out(stage), options.fidelity, contention));
        }
        for (int worker = 0; worker < participants_ * plan.pp; ++worker) {
            workers_.emplace_back(shape_, layout_.replica_of(worker), layout_.stage_of(worker), options.record);
            devices_.push_back(layout_.devices(layout_.replica_of(worker), layout_.stage_of(worker)));
        }
    }

    ReplayRecord run() {
        engine_.on_complete([this](Token token) { handle(token); });
        for (Worker& worker : workers_) {
            const StageMemory& memory = memory_[static_cast<std::size_t>(worker.stage)];
            worker.ledger.allocate(Seconds(0), MemoryTag::weights, memory.weights);
            worker.ledger.allocate(Seconds(0), MemoryTag::gradients, memory.gradients);
            worker.ledger.allocate(Seconds(0), MemoryTag::optimizer, memory.optimizer);
            worker.ledger.allocate(Seconds(0), MemoryTag::buffers, memory.buffers);
        }
        for (Worker& worker : workers_)
            advance(worker);
        engine_.run();
        return finish();
    }

  private:
    [[nodiscard]] std::size_t index_of(const Worker& worker) const {
        return static_cast<std::size_t>(&worker - workers_.data());
    }
    [[nodiscard]] Worker& worker_at(int replica, int stage) {
        return workers_[static_cast<std::size_t>(layout_.worker(replica, stage))];
    }
    [[nodiscard]] const StageWork& stage_work(const Worker& worker) const {
        return stages_[static_cast<std::size_t>(worker.stage)];
    }
    /// The simulated workers that hold the parameters of a stage.
    [[nodiscard]] std::vector<Worker*> holders(int stage) {
        const int owner = layout_.owner_of(stage);
        std::vector<Worker*> result;
        for (int replica = 0; replica < participants_; ++replica) {
            result.push_back(&worker_at(replica, owner));
            if (plan_.copies() > 1) result.push_back(&worker_at(replica, plan_.pp - 1 - owner));
        }
        return result;
    }

    void handle(Token token) {
        const auto kind = static_cast<EventKind>(token >> 56);
        const auto index = static_cast<std::size_t>(token & 0xffffffffU);
        const auto sub = static_cast<std::size_t>((token >> 32) & 0xffffffU);
        switch (kind) {
            case EventKind::step:
            case EventKind::unit_flow:
                return end_part(workers_[index]);
            case EventKind::unit_latency:
                return start_unit_flows(workers_[index]);
            case EventKind::transfer_latency:
                return start_transfer_flows(index);
            case EventKind::transfer_flow:
                return end_transfer_flow(index);
            case EventKind::bucket_latency:
                return streams_->start_flows(static_cast<int>(sub), index);
            case EventKind::bucket_flow:
                return end_bucket_flow(static_cast<int>(sub), index);
        }
    }

    /// Runs a worker until it has to wait for an event.
    void advance(Worker& worker) {
        while (worker.waiting == Worker::Waiting::nothing && !worker.done) {
            if (worker.work != nullptr) {
                if (worker.next_step < worker.work->size())
                    start_step(worker);
                else
                    end_pass(worker);
                continue;
            }
            worker.current = worker.stream.next();
            if (worker.current)
                execute(worker, *worker.current);
            else
                worker.done = true;
        }
    }

    void wait(Worker& worker, Worker::Waiting reason) {
        worker.waiting = reason;
        worker.waiting_since = engine_.now();
    }

    /// Ends a wait that belongs to one time class as a whole.
    void resume(Worker& worker, TimeClass time_class) {
        worker.account[time_class] += engine_.now() - worker.waiting_since;
        worker.waiting = Worker::Waiting::nothing;
    }

    // --- instructions
    // -------------------------------------------------------------------------------------------------

    void execute(Worker& worker, const Instruction& at) {
        switch (at.kind) {
            case InstructionKind::gather_parameters:
                return release_gathers(worker);
            case InstructionKind::receive_forward:
            case InstructionKind::receive_backward:
                return receive(worker, at);
            case InstructionKind::forward:
            case InstructionKind::backward:
            case InstructionKind::backward_input:
            case InstructionKind::backward_weight:
                return start_pass(worker, at);
            case InstructionKind::send_forward:
            case InstructionKind::send_backward:
                return send(worker, at);
            case InstructionKind::reduce_gradients:
                return finish_reductions(worker);
            case InstructionKind::optimizer_step:
                return reach_barrier(worker);
        }
    }

    [[nodiscard]] const Work& work_of(const ChunkWork& chunk, const Instruction& at) const {
        const bool first = at.microbatch == 0;
        const bool last = at.microbatch == shape_.passes() - 1;
        switch (at.kind) {
            case InstructionKind::forward:
                return first && !chunk.first_forward.empty() ? chunk.first_forward : chunk.forward;
            case InstructionKind::backward_input:
                return chunk.backward_input;
            case InstructionKind::backward_weight:
                return last && !chunk.last_weight.empty() ? chunk.last_weight : chunk.backward_weight;
            default:
                return last && !chunk.last_backward.empty() ? chunk.last_backward : chunk.backward;
        }
    }

    void start_pass(Worker& worker, const Instruction& at) {
        const auto index = static_cast<std::size_t>(at.chunk);
        const ChunkWork& chunk = stage_work(worker).chunks[index];
        const StageMemory& memory = memory_[static_cast<std::size_t>(worker.stage)];
        worker.work = &work_of(chunk, at);
        worker.next_step = 0;
        worker.pass_start = engine_.now();
        Bytes allocated;
        if (at.kind == InstructionKind::forward) {
            worker.flops += chunk.forward_flops;
            allocated = memory.chunk_activations[index] + memory.chunk_transient[index];
        } else if (at.kind == InstructionKind::backward_weight) {
            worker.flops += chunk.weight_flops;
        } else {
            worker.flops += chunk.backward_flops;
            if (at.kind == InstructionKind::backward_input) worker.flops -= chunk.weight_flops;
            allocated = memory.chunk_working[index];
        }
        worker.ledger.allocate(engine_.now(), MemoryTag::activations, allocated);
    }

    /// What the end of a pass frees; B of a split backward pass leaves to W what it needs (see sim/cost/memory.hpp).
    [[nodiscard]] static Bytes freed_by(InstructionKind kind, const StageMemory& memory, std::size_t chunk) {
        switch (kind) {
            case InstructionKind::backward:
                return memory.chunk_activations[chunk] + memory.chunk_transient[chunk] + memory.chunk_working[chunk];
            case InstructionKind::backward_input:
                return memory.chunk_transient[chunk] - memory.chunk_delayed[chunk] + memory.chunk_working[chunk];
            case InstructionKind::backward_weight:
                return memory.chunk_activations[chunk] + memory.chunk_delayed[chunk];
            default:
                return Bytes(0);
        }
    }

    static SliceKind slice_of(InstructionKind kind) {
        switch (kind) {
            case InstructionKind::forward:
                return SliceKind::forward;
            case InstructionKind::backward:
                return SliceKind::backward;
            case InstructionKind::backward_input:
                return SliceKind::backward_input;
            case InstructionKind::backward_weight:
                return SliceKind::backward_weight;
            default:
                return SliceKind::optimizer_step;
        }
    }

    void end_pass(Worker& worker) {
        worker.work = nullptr;
        const Instruction& at = *worker.current;
        const Bytes freed =
            freed_by(at.kind, memory_[static_cast<std::size_t>(worker.stage)], static_cast<std::size_t>(at.chunk));
        if (freed > Bytes(0)) worker.ledger.free(engine_.now(), MemoryTag::activations, freed);
        record_slice(index_of(worker), slice_of(at.kind), at.chunk, at.microbatch, worker.pass_start);
    }

    void record_slice(std::size_t worker, SliceKind kind, int chunk, std::int64_t microbatch, Seconds start) {
        if (options_.record && engine_.now() > start)
            slices_.push_back({static_cast<int>(worker), kind, chunk, microbatch, start, engine_.now()});
    }

    // --- steps of a pass
    // ----------------------------------------------------------------------------------------------

    void start_step(Worker& worker) {
        const WorkStep& step = (*worker.work)[worker.next_step];
        if (!worker.prefetched) {
            worker.prefetched = true;
            for (const int bucket : step.prefetch)
                streams_->mark_ready(worker.stage, bucket);
        }
        for (const int bucket : step.await) {
            if (streams_->has_run(worker.stage, bucket, worker.current)) continue;
            worker.awaited_bucket = bucket;
            return wait(worker, Worker::Waiting::bucket);
        }
        worker.step_shares = step.shares;
        if (streams_->gathering(worker.stage)) worker.step_shares[TimeClass::compute] += step.beside_gathers;
        const Seconds duration = worker.step_shares.total();
        worker.step_start = engine_.now();
        if (step.flow == nullptr && duration == Seconds(0)) return end_step(worker);
        worker.waiting = Worker::Waiting::step;
        worker.pending = 1;
        engine_.delay(duration, make_token(EventKind::step, index_of(worker)));
        if (step.flow == nullptr) return;
        ++worker.pending;
        Seconds latency;
        for (const Decomposition& collective : unit_decomposition(worker))
            latency = std::max(latency, collective.latency);
        engine_.delay(latency, make_token(EventKind::unit_latency, index_of(worker)));
    }

    /// The collective that the worker's current step runs, in each of its groups.
    const std::vector<Decomposition>& unit_decomposition(const Worker& worker) {
        const UnitCollective& call = *(*worker.work)[worker.next_step].flow;
        const auto [entry, added] =
            unit_decompositions_.try_emplace({index_of(worker), call.axis, call.kind, call.size.value()});
        if (added)
            for (const Group& group : layout_.groups(call.axis, worker.replica, worker.stage))
                entry->second.push_back(
                    decompose(call.kind, CollectiveAlgorithm::automatic, group, call.size, topology_));
        return entry->second;
    }

    void start_unit_flows(Worker& worker) {
        const std::vector<Decomposition>& collectives = unit_decomposition(worker);
        for (const Decomposition& collective : collectives)
            worker.pending += static_cast<int>(collective.flows.size());
        for (const Decomposition& collective : collectives)
            for (const HopFlow& flow : collective.flows)
                engine_.flow(flow.source, flow.destination, flow.bytes,
                             make_token(EventKind::unit_flow, index_of(worker)));
        end_part(worker);  // the latency
    }

    void end_part(Worker& worker) {
        if (--worker.pending > 0) return;
        worker.waiting = Worker::Waiting::nothing;
        end_step(worker);
        advance(worker);
    }

    void end_step(Worker& worker) {
        const WorkStep& step = (*worker.work)[worker.next_step];
        worker.account += worker.step_shares;
        if (step.flow != nullptr)
            worker.account[step.flow->axis == Axis::tp ? TimeClass::tp_exposed : TimeClass::cp_exposed] +=
                engine_.now() - worker.step_start - worker.step_shares.total();
        ++worker.next_step;
        worker.prefetched = false;
        for (const int bucket : step.release)
            streams_->mark_ready(worker.stage, bucket);
    }

    // --- stage boundaries
    // ---------------------------------------------------------------------------------------------

    void send(Worker& worker, const Instruction& at) {
        const bool backward = at.kind == InstructionKind::send_backward;
        const int target = shape_.target(shape_.virtual_stage(worker.stage, at.chunk), backward);
        std::size_t slot = transfers_.size();
        if (free_transfers_.empty()) {
            transfers_.emplace_back();
        } else {
            slot = free_transfers_.back();
            free_transfers_.pop_back();
        }
        Transfer& transfer = transfers_[slot];
        transfer.sender = index_of(worker);
        transfer.receiver = index_of(worker_at(worker.replica, shape_.stage_of(target)));
        transfer.message = {backward, shape_.chunk_of(target), at.microbatch, engine_.now()};
        Seconds latency;
        const Group& from = devices_[transfer.sender];
        const Group& to = devices_[transfer.receiver];
        for (std::size_t rank = 0; rank < from.size(); ++rank)
            latency = std::max(latency, topology_.p2p_latency(from[rank], to[rank]));
        latency += model_.regather_time(plan_, boundary_of(transfer));
        if (!model_.sends_overlap(plan_)) wait(worker, Worker::Waiting::transfer);
        engine_.delay(latency, make_token(EventKind::transfer_latency, slot));
    }

    /// The tensor on the way: what leaves the chunk in front of the boundary (forward and backward alike).
    [[nodiscard]] Bytes boundary_of(const Transfer& transfer) const {
        const int receiving = shape_.virtual_stage(workers_[transfer.receiver].stage, transfer.message.chunk);
        const int front = transfer.message.backward ? receiving : receiving - 1;
        return stages_[static_cast<std::size_t>(shape_.stage_of(front))]
            .chunks[static_cast<std::size_t>(shape_.chunk_of(front))]
            .boundary;
    }

    void start_transfer_flows(std::size_t slot) {
        Transfer& transfer = transfers_[slot];
        const Group& from = devices_[transfer.sender];
        const Group& to = devices_[transfer.receiver];
        const Bytes bytes = model_.p2p_bytes(plan_, boundary_of(transfer));
        transfer.pending = simulated_ranks_ * plan_.cp;
        for (int cp_rank = 0; cp_rank < plan_.cp; ++cp_rank)
            for (int tp_rank = 0; tp_rank < simulated_ranks_; ++tp_rank) {
                const auto rank = static_cast<std::size_t>(tp_rank + plan_.tp * cp_rank);
                engine_.flow(from[rank], to[rank], bytes, make_token(EventKind::transfer_flow, slot));
            }
    }

    void end_transfer_flow(std::size_t slot) {
        if (--transfers_[slot].pending > 0) return;
        const Transfer transfer = transfers_[slot];
        free_transfers_.push_back(slot);
        const Message& message = transfer.message;
        Worker& sender = workers_[transfer.sender];
        Worker& receiver = workers_[transfer.receiver];
        record_slice(transfer.sender, message.backward ? SliceKind::send_backward : SliceKind::send_forward,
                     message.chunk, message.microbatch, message.sent);
        receiver.inbox.push_back(message);
        if (receiver.waiting == Worker::Waiting::message && take(receiver)) advance(receiver);
        if (!model_.sends_overlap(plan_)) {
            resume(sender, TimeClass::pp_exposed);
            advance(sender);
        }
    }

    void receive(Worker& worker, const Instruction&) {
        wait(worker, Worker::Waiting::message);
        take(worker);
    }

    /// Consumes the awaited message if it is there. The wait splits where the transfer began: before, the other stage
    /// was computing (bubble); after, the boundary was on its way.
    bool take(Worker& worker) {
        const Instruction& at = *worker.current;
        const bool backward = at.kind == InstructionKind::receive_backward;
        const auto found = std::find_if(worker.inbox.begin(), worker.inbox.end(), [&](const Message& message) {
            return message.backward == backward && message.chunk == at.chunk && message.microbatch == at.microbatch;
        });
        if (found == worker.inbox.end()) return false;
        const Seconds now = engine_.now();
        const Seconds sent = std::max(worker.waiting_since, found->sent);
        worker.account[TimeClass::bubble] += std::min(sent, now) - worker.waiting_since;
        worker.account[TimeClass::pp_exposed] += now - std::min(sent, now);
        worker.inbox.erase(found);
        worker.waiting = Worker::Waiting::nothing;
        return true;
    }

    // --- data-parallel collectives
    // ------------------------------------------------------------------------------------

    void release_gathers(Worker& worker) {
        for (const int bucket : streams_->of(worker.stage).at_start)
            streams_->mark_ready(worker.stage, bucket);
    }

    void end_bucket_flow(int stage, std::size_t index) {
        const std::vector<Worker*> waiting = holders(stage);
        const bool beside_compute = std::any_of(waiting.begin(), waiting.end(), [](const Worker* worker) {
            return worker->waiting != Worker::Waiting::bucket;
        });
        const auto start = streams_->end_flow(stage, index, beside_compute);
        if (!start) return;
        const bool reduces = streams_->of(stage).buckets[index].reduces;
        for (const Worker* worker : waiting)
            record_slice(index_of(*worker), reduces ? SliceKind::reduce_gradients : SliceKind::gather_parameters,
                         static_cast<int>(index), 0, *start);
        for (Worker* worker : waiting) {
            if (worker->waiting != Worker::Waiting::bucket || !has_what_it_awaits(*worker)) continue;
            resume(*worker, TimeClass::dp_exposed);
            advance(*worker);
        }
    }

    [[nodiscard]] bool has_what_it_awaits(const Worker& worker) const {
        if (worker.awaited_bucket < 0) return streams_->reductions_done(worker.stage);
        return streams_->has_run(worker.stage, worker.awaited_bucket, worker.current);
    }

    /// After the last backward pass: without overlap the reductions start here; all of them are awaited.
    void finish_reductions(Worker& worker) {
        for (const int bucket : streams_->of(worker.stage).at_end)
            streams_->mark_ready(worker.stage, bucket);
        if (streams_->reductions_done(worker.stage)) return;
        worker.awaited_bucket = -1;
        wait(worker, Worker::Waiting::bucket);
    }

    /// The gradient norm needs every stage of every replica before any of them may step.
    void reach_barrier(Worker& worker) {
        wait(worker, Worker::Waiting::barrier);
        if (++at_barrier_ < workers_.size()) return;
        for (Worker& other : workers_) {
            resume(other, TimeClass::bubble);
            other.work = &stage_work(other).finish;
            other.next_step = 0;
            other.pass_start = engine_.now();
        }
        for (Worker& other : workers_)
            advance(other);
    }

    // --- result
    // -------------------------------------------------------------------------------------------------------

    void check_all_done() const {
        for (const Worker& worker : workers_) {
            if (worker.done) continue;
            throw SimulationError(fmt::format(
                "the replay stopped at {} s: stage {} of replica {} waits at {} (chunk {}, microbatch {})",
                engine_.now().value(), worker.stage, worker.replica,
                worker.current ? name_of(worker.current->kind) : "the end", worker.current ? worker.current->chunk : 0,
                worker.current ? worker.current->microbatch : 0));
        }
    }

    WorkerRecord worker_record(const Worker& worker, int replica) {
        WorkerRecord result;
        result.replica = replica;
        result.stage = worker.stage;
        result.devices = layout_.devices(replica, worker.stage);
        result.breakdown = worker.account;
        // Whoever finishes its optimizer early waits for the slowest stage.
        const Seconds rest = engine_.now() - worker.account.total();
        result.breakdown[TimeClass::bubble] += std::max(rest, Seconds(0));
        PLANSIM_CHECK(std::abs((result.breakdown.total() - engine_.now()).value()) <= 1e-9 * engine_.now().value(),
                      "the breakdown of a worker does not add up to the iteration time");
        result.peak_memory = worker.ledger.peak();
        result.at_peak = worker.ledger.at_peak();
        result.flops = worker.flops;
        if (replica != worker.replica) return result;
        for (const auto& sample : worker.ledger.series())
            result.memory.push_back({sample.time, sample.live});
        return result;
    }

    ReplayRecord finish() {
        check_all_done();
        ReplayRecord record;
        record.iteration_time = engine_.now();
        for (int replica = 0; replica < plan_.dp; ++replica)
            for (int stage = 0; stage < plan_.pp; ++stage)
                record.workers.push_back(worker_record(worker_at(folded_ ? 0 : replica, stage), replica));
        for (std::size_t worker = 0; worker < workers_.size(); ++worker)
            if (record.workers[worker].breakdown.idle() < record.workers[record.slowest].breakdown.idle())
                record.slowest = worker;
        record.slices = std::move(slices_);
        std::vector<std::int64_t> bytes = engine_.link_bytes();
        streams_->add_bytes_stood_for(bytes);
        const std::vector<std::int64_t> of_first_rank = bytes;
        if (rank_links_)
            for (const auto& links : *rank_links_)
                for (const auto& [link, image] : links)
                    bytes[static_cast<std::size_t>(image)] += of_first_rank[static_cast<std::size_t>(link)];
        const auto& links = topology_.links();
        for (int replica = 0; replica < plan_.dp; ++replica)
            for (int stage = 0; stage < plan_.pp; ++stage) {
                const bool copied = replica >= participants_;
                add_unit_bytes(layout_, replica, stage, stages_[static_cast<std::size_t>(stage)].collectives, copied,
                               topology_, bytes);
            }
        streams_->add_bytes_of_delays(bytes);
        for (int replica = participants_; replica < plan_.dp; ++replica)
            add_boundary_bytes(model_, plan_, replica, bytes);
        for (std::size_t link = 0; link < links.size(); ++link)
            record.links.push_back(
                {links[link].name, std::string(name_of(links[link].link_class)), links[link].bandwidth, bytes[link]});
        record.flows = engine_.flows();
        record.delays = engine_.delays();
        record.events = record.flows + record.delays;
        record.folded = folded_;
        return record;
    }

    CostModel& model_;
    const Plan& plan_;
    const ReplayOptions& options_;
    Layout layout_;
    const Topology& topology_;
    PipelineShape shape_;
    Engine engine_;
    bool folded_ = false;
    int participants_ = 1;  // replicas that are simulated
    std::vector<StageMemory> memory_;
    std::optional<DataStreams> streams_;  // set by the constructor, once it is known what is simulated
    std::vector<StageWork> stages_;
    std::vector<Worker> workers_;
    std::vector<Group> devices_;  // of each worker
    std::vector<Transfer> transfers_;
    std::vector<std::size_t> free_transfers_;
    std::vector<Slice> slices_;
    std::map<std::tuple<std::size_t, Axis, CollectiveKind, std::int64_t>, std::vector<Decomposition>>
        unit_decompositions_;
    std::size_t at_barrier_ = 0;
    std::optional<RankLinks> rank_links_;
    int simulated_ranks_ = 1;  // tensor-parallel ranks whose flows are simulated
};

}  // namespace

ReplayRecord replay(CostModel& model, const Plan& plan, const ReplayOptions& options) {
    validate_schedule(plan.shape());
    return Replayer(model, plan, options).run();
}

}  // namespace plansim
