#include "clef_shim.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "mtmd.h"

// Declared in llama.cpp's staging header (llama-ext.h), which is not installed with the library.
void llama_set_embeddings_nextn(struct llama_context * ctx, bool value, bool masked);
float * llama_get_embeddings_nextn(struct llama_context * ctx);
int32_t llama_model_n_devices(const struct llama_model * model);
ggml_backend_dev_t llama_model_get_device(const struct llama_model * model, int i);

namespace {

#if defined(__linux__) && defined(__GLIBC__)
// How often libgomp's threads look again before they sleep at a barrier. A hidden symbol of the library, which is linked
// statically; weak, because another version may not have it.
extern "C" __attribute__((weak)) unsigned long long gomp_spin_count_var;

bool barriers_are_ours = false;

// The threads spin for milliseconds by default, which starves whatever else runs on the machine, and themselves with it.
// libgomp reads the environment in a constructor of its own, after this one. A setting of the user's stays.
__attribute__((constructor(101))) void sleep_at_barriers() {
    if (getenv("OMP_WAIT_POLICY") == nullptr && getenv("GOMP_SPINCOUNT") == nullptr) {
        setenv("OMP_WAIT_POLICY", "passive", 0);
        barriers_are_ours = true;
    }
}
#endif

void write_message(const clef_message & message, const char * text) noexcept {
    if (message.text != nullptr && message.capacity > 0) {
        std::snprintf(message.text, message.capacity, "%s", text);
    }
}

llama_state_seq_flags extent(bool recurrent_only) noexcept {
    return recurrent_only ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
}

template <typename Call> int guarded(const clef_message & error, Call && call) noexcept {
    try {
        return call();
    } catch (const std::exception & e) {
        write_message(error, e.what());
    } catch (...) {
        write_message(error, "an exception that carries no message");
    }
    return CLEF_THREW;
}

struct stream {
    const void * source;
    clef_read_at read;
    uint64_t size;
    uint64_t position;
};

int64_t stream_read(stream * s, char * buffer, size_t length) noexcept {
    const int64_t n = s->read(s->source, s->position, buffer, length);
    if (n > 0) {
        s->position += static_cast<uint64_t>(n);
    }
    return n;
}

// Returns the new position, or -1.
int64_t stream_seek(stream * s, int64_t offset, int whence) noexcept {
    int64_t base = 0;
    switch (whence) {
        case SEEK_SET: base = 0; break;
        case SEEK_CUR: base = static_cast<int64_t>(s->position); break;
        case SEEK_END: base = static_cast<int64_t>(s->size); break;
        default: return -1;
    }
    const int64_t target = base + offset;
    if (target < 0) {
        return -1;
    }
    s->position = static_cast<uint64_t>(target);
    return target;
}

#if defined(__linux__)
FILE * stream_open(stream * s) noexcept {
    cookie_io_functions_t functions = {};
    functions.read = [](void * cookie, char * buffer, size_t length) -> ssize_t {
        return static_cast<ssize_t>(stream_read(static_cast<stream *>(cookie), buffer, length));
    };
    functions.seek = [](void * cookie, off64_t * offset, int whence) -> int {
        const int64_t position = stream_seek(static_cast<stream *>(cookie), *offset, whence);
        if (position < 0) {
            return -1;
        }
        *offset = position;
        return 0;
    };
    return fopencookie(s, "rb", functions);
}
#elif defined(__APPLE__) || defined(__FreeBSD__) || defined(__OpenBSD__) || defined(__NetBSD__)
FILE * stream_open(stream * s) noexcept {
    return funopen(
        s,
        [](void * cookie, char * buffer, int length) -> int {
            return static_cast<int>(stream_read(static_cast<stream *>(cookie), buffer, static_cast<size_t>(length)));
        },
        nullptr,
        [](void * cookie, fpos_t offset, int whence) -> fpos_t {
            return stream_seek(static_cast<stream *>(cookie), offset, whence);
        },
        nullptr);
}
#else
#error "no custom FILE streams on this system: models need another way in, see vendor/README.md"
#endif

struct close_file {
    void operator()(FILE * file) const noexcept { std::fclose(file); }
};

struct free_sampler {
    void operator()(llama_sampler * sampler) const noexcept { llama_sampler_free(sampler); }
};

} // namespace

extern "C" {

int clef_model_load(const void * source, clef_read_at read, uint64_t size, const struct llama_model_params * params,
                    struct llama_model ** model, struct clef_message error) noexcept {
    return guarded(error, [&] {
        stream s = { source, read, size, 0 };
        std::unique_ptr<FILE, close_file> file(stream_open(&s));
        if (!file) {
            write_message(error, "cannot open a custom stream");
            return CLEF_THREW;
        }
        *model = llama_model_load_from_file_ptr(file.get(), *params);
        return *model == nullptr ? CLEF_FAILED : CLEF_OK;
    });
}

ggml_backend_dev_t clef_model_last_device(const struct llama_model * model) noexcept {
    const int32_t count = llama_model_n_devices(model);
    return count > 0 ? llama_model_get_device(model, count - 1) : nullptr;
}

int clef_context_new(struct llama_model * model, const struct llama_context_params * params,
                     struct llama_context ** context, struct clef_message error) noexcept {
    return guarded(error, [&] {
        *context = llama_init_from_model(model, *params);
        if (*context == nullptr) {
            return CLEF_FAILED;
        }
        llama_set_embeddings_nextn(*context, true, false);
        return CLEF_OK;
    });
}

int clef_decode(struct llama_context * context, const struct llama_batch * batch, int32_t * result,
                struct clef_message error) noexcept {
    return guarded(error, [&] {
        *result = llama_decode(context, *batch);
        return CLEF_OK;
    });
}

int clef_hidden_states(struct llama_context * context, const float ** rows, struct clef_message error) noexcept {
    return guarded(error, [&] {
        *rows = llama_get_embeddings_nextn(context);
        return *rows == nullptr ? CLEF_FAILED : CLEF_OK;
    });
}

int clef_logits(struct llama_context * context, const float ** logits, struct clef_message error) noexcept {
    return guarded(error, [&] {
        *logits = llama_get_logits_ith(context, -1);
        return *logits == nullptr ? CLEF_FAILED : CLEF_OK;
    });
}

int clef_sampler_new(const struct clef_sampling * sampling, struct llama_sampler ** sampler,
                     struct clef_message error) noexcept {
    return guarded(error, [&] {
        std::unique_ptr<llama_sampler, free_sampler> chain(
            llama_sampler_chain_init(llama_sampler_chain_default_params()));
        if (sampling->temperature <= 0) {
            llama_sampler_chain_add(chain.get(), llama_sampler_init_greedy());
        } else {
            // In the order of llama.cpp's own programs.
            llama_sampler_chain_add(chain.get(), llama_sampler_init_top_k(sampling->top_k));
            llama_sampler_chain_add(chain.get(), llama_sampler_init_top_p(sampling->top_p, 1));
            llama_sampler_chain_add(chain.get(), llama_sampler_init_temp(sampling->temperature));
            llama_sampler_chain_add(chain.get(), llama_sampler_init_dist(sampling->is_seeded ? sampling->seed : LLAMA_DEFAULT_SEED));
        }
        *sampler = chain.release();
        return CLEF_OK;
    });
}

int clef_sample(struct llama_sampler * sampler, struct llama_context * context, llama_token * token,
                struct clef_message error) noexcept {
    return guarded(error, [&] {
        *token = llama_sampler_sample(sampler, context, -1);
        return CLEF_OK;
    });
}

int clef_sequence_copy(struct llama_context * context, llama_seq_id from, llama_seq_id to,
                       struct clef_message error) noexcept {
    return guarded(error, [&] {
        llama_memory_seq_cp(llama_get_memory(context), from, to, -1, -1);
        return CLEF_OK;
    });
}

int clef_sequence_remove(struct llama_context * context, llama_seq_id sequence, struct clef_message error) noexcept {
    return guarded(error, [&] {
        return llama_memory_seq_rm(llama_get_memory(context), sequence, -1, -1) ? CLEF_OK : CLEF_FAILED;
    });
}

int clef_sequence_truncate(struct llama_context * context, llama_seq_id sequence, llama_pos length,
                           struct clef_message error) noexcept {
    return guarded(error, [&] {
        return llama_memory_seq_rm(llama_get_memory(context), sequence, length, -1) ? CLEF_OK : CLEF_FAILED;
    });
}

int clef_sequence_state_size(struct llama_context * context, llama_seq_id sequence, bool recurrent_only,
                             size_t * size, struct clef_message error) noexcept {
    return guarded(error, [&] {
        *size = llama_state_seq_get_size_ext(context, sequence, extent(recurrent_only));
        return *size == 0 ? CLEF_FAILED : CLEF_OK;
    });
}

int clef_sequence_state_get(struct llama_context * context, llama_seq_id sequence, bool recurrent_only,
                            uint8_t * buffer, size_t capacity, size_t * written, struct clef_message error) noexcept {
    return guarded(error, [&] {
        *written = llama_state_seq_get_data_ext(context, buffer, capacity, sequence, extent(recurrent_only));
        return *written == 0 ? CLEF_FAILED : CLEF_OK;
    });
}

int clef_sequence_state_set(struct llama_context * context, llama_seq_id sequence, bool recurrent_only,
                            const uint8_t * bytes, size_t size, struct clef_message error) noexcept {
    return guarded(error, [&] {
        return llama_state_seq_set_data_ext(context, bytes, size, sequence, extent(recurrent_only)) == size ? CLEF_OK : CLEF_FAILED;
    });
}

int clef_tokenize(const struct llama_vocab * vocab, const char * text, int32_t length, llama_token * tokens,
                  int32_t capacity, int32_t * count, struct clef_message error) noexcept {
    return guarded(error, [&] {
        *count = llama_tokenize(vocab, text, length, tokens, capacity, false, false);
        return CLEF_OK;
    });
}

int clef_quantize(const char * input, const char * output, const struct llama_model_quantize_params * params,
                  struct clef_message error) noexcept {
    return guarded(error, [&] { return llama_model_quantize(input, output, params) == 0 ? CLEF_OK : CLEF_FAILED; });
}

int clef_scheduler_new(ggml_backend_t * backends, int count, size_t graph_size, ggml_backend_sched_t * scheduler,
                       struct clef_message error) noexcept {
    return guarded(error, [&] {
        *scheduler = ggml_backend_sched_new(backends, nullptr, count, graph_size, false, false);
        return *scheduler == nullptr ? CLEF_FAILED : CLEF_OK;
    });
}

int clef_scheduler_alloc(ggml_backend_sched_t scheduler, struct ggml_cgraph * graph, struct clef_message error) noexcept {
    return guarded(error, [&] {
        ggml_backend_sched_reset(scheduler);
        return ggml_backend_sched_alloc_graph(scheduler, graph) ? CLEF_OK : CLEF_FAILED;
    });
}

int clef_scheduler_compute(ggml_backend_sched_t scheduler, struct ggml_cgraph * graph, struct clef_message error) noexcept {
    return guarded(error, [&] {
        return ggml_backend_sched_graph_compute(scheduler, graph) == GGML_STATUS_SUCCESS ? CLEF_OK : CLEF_FAILED;
    });
}

int clef_vision_new(const char * path, const struct llama_model * model, const struct clef_vision_params * params,
                    struct mtmd_context ** vision, struct clef_message error) noexcept {
    return guarded(error, [&] {
        mtmd_context_params raw = mtmd_context_params_default();
        raw.use_gpu = params->use_gpu;
        raw.device = params->device;
        raw.print_timings = false;
        raw.n_threads = params->threads;
        raw.flash_attn_type = params->flash_attention;
        raw.warmup = false;
        // Pictures come at their final size: limits that none of them reaches keep the library from changing it.
        raw.image_min_tokens = 1;
        raw.image_max_tokens = 1 << 20;
        *vision = mtmd_init_from_file(path, model, raw);
        return *vision == nullptr ? CLEF_FAILED : CLEF_OK;
    });
}

void clef_vision_free(struct mtmd_context * vision) noexcept { mtmd_free(vision); }

int clef_vision_encode(struct mtmd_context * vision, const unsigned char * const * frames, size_t frame_count,
                       uint32_t width, uint32_t height, size_t row_width, float * rows, size_t count,
                       struct clef_message error) noexcept {
    return guarded(error, [&] {
        std::vector<mtmd::bitmap_ptr> bitmaps;
        std::vector<mtmd_input_part> parts;
        for (size_t i = 0; i < frame_count; i++) {
            bitmaps.emplace_back(mtmd_bitmap_init(width, height, frames[i]));
            mtmd_bitmap_set_mergeable(bitmaps.back().get(), frame_count > 1);
            parts.push_back({ nullptr, bitmaps.back().get() });
        }
        std::vector<const mtmd_input_part *> pointers;
        for (const mtmd_input_part & part : parts) {
            pointers.push_back(&part);
        }
        mtmd::input_chunks_ptr chunks(mtmd_input_chunks_init());
        if (mtmd_tokenize_from_parts(vision, chunks.get(), pointers.data(), pointers.size(), false) != 0) {
            return CLEF_FAILED;
        }
        bitmaps.clear();
        // The tokens around the picture come as chunks of their own.
        const mtmd_input_chunk * shown = nullptr;
        for (size_t i = 0; i < mtmd_input_chunks_size(chunks.get()); i++) {
            const mtmd_input_chunk * chunk = mtmd_input_chunks_get(chunks.get(), i);
            if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_IMAGE) {
                if (shown != nullptr) {
                    write_message(error, "the frames were not taken as one");
                    return CLEF_THREW;
                }
                shown = chunk;
            }
        }
        if (shown == nullptr || mtmd_input_chunk_get_n_tokens(shown) * row_width != count) {
            write_message(error, "the picture has another number of tokens than its size says");
            return CLEF_THREW;
        }
        if (mtmd_encode_chunk(vision, shown) != 0) {
            return CLEF_FAILED;
        }
        std::memcpy(rows, mtmd_get_output_embd(vision), count * sizeof(float));
        return CLEF_OK;
    });
}

void clef_vision_set_log(ggml_log_callback callback) noexcept { mtmd_log_set(callback, nullptr); }

bool clef_set_barrier_spins(uint64_t spins) noexcept {
#if defined(__linux__) && defined(__GLIBC__)
    if (barriers_are_ours && &gomp_spin_count_var != nullptr) {
        __atomic_store_n(&gomp_spin_count_var, spins, __ATOMIC_RELAXED);
        return true;
    }
#endif
    (void) spins;
    return false;
}

void clef_backend_set_threads(ggml_backend_t backend, int threads) noexcept {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    ggml_backend_reg_t registry = device == nullptr ? nullptr : ggml_backend_dev_backend_reg(device);
    if (registry == nullptr) {
        return;
    }
    auto * set = reinterpret_cast<ggml_backend_set_n_threads_t>(
        ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
    if (set != nullptr) {
        set(backend, threads);
    }
}

} // extern "C"
