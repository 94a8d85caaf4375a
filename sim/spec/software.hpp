// SPDX-License-Identifier: Apache-2.0
// The software profile: what the training framework does with the hardware (fusion, kernel generation, host time,
// overlap, memory habits). Schema with every key, unit and default: platforms/README.md.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/reader.hpp"
#include "sim/base/units.hpp"

namespace plansim {

/// Fixed in the order of the fusion levels of the cost model.
enum class AttentionImplementation { fused, materialised };

struct Software {
    std::string name;

    // Kernels.
    AttentionImplementation attention = AttentionImplementation::fused;
    std::string attention_kernel = "cudnn";    // looked up in accelerator.efficiency.attention
    double unfused_attention_traffic = 0.794;  // multiplier on the traffic of materialised scores
    double permutation_traffic = 1.5;          // multiplier on the least traffic of bringing tokens into expert order
    double elementwise_traffic = 2.22;         // multiplier on the least traffic of norms, residuals, activations
    double loss_traffic = 0.781;               // multiplier on 24 bytes per logit, forward and backward together
    double optimizer_traffic = 1.06;           // multiplier on the bytes of the optimizer step
    double cast_traffic = 0.82;                // multiplier on 4 bytes per element cast to fp8, one scale per tensor
    double mx_cast_traffic = 0.717;            // the same, one scale per block (mxfp8)
    double fp4_cast_traffic = 1.38;            // the same to fp4
    double norm_bytes = 0;          // more bytes per element of a norm that is not one kernel; 1.5 times backward
    double fsdp_copy_bytes = 0;     // bytes per parameter and gathering of FSDP's copies and casts
    double accumulation_bytes = 0;  // bytes per parameter and microbatch of unfused gradient accumulation
    double forward_kernels = 12;    // element-wise kernels per layer, forward
    double backward_kernels = 20;   // the same, backward
    bool dropout = false;           // dropout masks are kept for the backward pass

    // Host.
    Seconds layer_host_time{200e-6};  // per layer and pass; 1.2 times that backward
    Seconds moe_host_time{0};         // added per layer and pass with experts (routing, permutation)
    Seconds expert_host_time{0};      // added per local expert besides
    Seconds softmax_host_time{0};     // more per layer and pass where no fused softmax fits (mbs x heads / tp not of 4)
    Seconds blocking_time{0};         // device idle per layer and pass when every launch waits for the last
    double host_growth = 0.0735;      // growth of the host time per doubling of tp
    double cuda_graphs = 0;           // share of layer_host_time that graphs remove, 0 .. 1
    Seconds iteration_time{12e-3};    // per optimizer step: gradient norm, logging, step call
    double straggler_growth = 0.00479;  // slow-down of compute per doubling of the nodes (slowest of many)

    // Overlap.
    bool tp_overlap = true;           // tensor-parallel collectives run beside their products
    double tp_overlap_share = 0.666;  // share of them that is hidden when tp_overlap is on
    double cp_overlap_share = 0.8;    // of the attention core's time that can hide context-parallel transfers
    Seconds cp_step_time{10e-6};      // exposed per step of the context-parallel ring
    double expert_overlap_share = 0;  // share of the exchange of experts that is hidden
    double dp_overlap_share = 0.882;  // share of the compute beside it that an overlapped collective can use
    bool dp_overlap = true;           // gradients are reduced, parameters gathered, beside the passes
    std::int64_t bucket_parameters = 40'000'000;  // least parameters of one overlapped data-parallel collective
    // Sends of the interleaved schedule return at once (Megatron offers that for no other schedule); else a sender
    // waits.
    bool pp_overlap = false;
    double overlap_slowdown = 0.165;  // compute time lost per second of collective that runs beside it
    Seconds owner_time{0};            // per step and ZeRO owner beyond a node: parameters broadcast owner by owner
    double offload_exposed = 0.15;    // share of the transfers of offloaded activations that nothing hides
    bool scatter_gather_p2p = true;   // a stage boundary is split over the tp ranks on the way

    // Data types and memory.
    std::int64_t gradient_bytes = 4;         // per parameter, as kept
    std::int64_t gradient_reduce_bytes = 2;  // per parameter, as sent
    double gathered_bytes = 2;               // per parameter, as gathered by FSDP (1: in fp8)
    double state_bytes = 12;                 // per parameter, of Adam: fp32 weight, two fp32 moments, scratch
    bool gradient_placeholders = true;       // a 16-bit stand-in for the gradient of every weight of a layer
    double norm_copy_bytes = 0;              // per element of a norm that is not one kernel: fp32 copies that are kept
    bool fused_activation = true;            // a gated activation is one kernel: what its gate puts out is not kept
    double score_bytes = 5;                  // kept per materialised score
    double logit_bytes = 4;                  // per logit of the head, live during loss and its backward
    bool parallel_loss = true;               // logits stay split over the tensor-parallel ranks
    Bytes context{3'000'000'000};            // CUDA context, communicator buffers
    double memory_headroom = 0;              // share of the device's memory that the search leaves free
    double fragmentation = 1.04;             // memory that the allocator takes / memory that is asked of it

    // What a plan gets that does not say otherwise.
    bool sequence_parallel = true;  // if tp > 1
    std::int64_t zero = 1;          // if dp > 1
};

Software read_software(Reader document);
std::string to_yaml(const Software& software);

}  // namespace plansim
