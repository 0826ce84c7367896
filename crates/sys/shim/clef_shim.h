// C entry points over the parts of llama.cpp that can throw, or whose symbols are C++.
//
// Every function is noexcept: an exception becomes CLEF_THREW and its message is written, cut to fit and
// terminated, into `error`. Nothing the caller passes in is freed here.
#pragma once

#include "ggml-backend.h"
#include "llama.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define CLEF_NOEXCEPT noexcept
extern "C" {
#else
#define CLEF_NOEXCEPT
#endif

enum clef_status {
    CLEF_OK = 0,
    CLEF_THREW = 1,  // an exception was caught, its message is in `error`
    CLEF_FAILED = 2, // llama.cpp reported failure, its log holds the reason
};

struct clef_message {
    char * text;
    size_t capacity;
};

// Reads up to `length` bytes at `offset`; returns how many, fewer only at the end, or a negative number.
typedef int64_t (*clef_read_at)(const void * source, uint64_t offset, void * buffer, size_t length);

// Loads a model from `size` bytes that `read` serves. `source` must outlive the call, not the model.
int clef_model_load(const void * source, clef_read_at read, uint64_t size, const struct llama_model_params * params,
                    struct llama_model ** model, struct clef_message error) CLEF_NOEXCEPT;

// The device that holds the layers nearest the output, or NULL when the model lives on the CPU.
ggml_backend_dev_t clef_model_last_device(const struct llama_model * model) CLEF_NOEXCEPT;

int clef_context_new(struct llama_model * model, const struct llama_context_params * params,
                     struct llama_context ** context, struct clef_message error) CLEF_NOEXCEPT;

// `result` receives what llama_decode returned.
int clef_decode(struct llama_context * context, const struct llama_batch * batch, int32_t * result,
                struct clef_message error) CLEF_NOEXCEPT;

// Hidden states (after the final norm) of all tokens of the last decode, row by row in batch order.
int clef_hidden_states(struct llama_context * context, const float ** rows, struct clef_message error) CLEF_NOEXCEPT;

// Logits of the last token of the last decode, one for each token of the vocabulary; that token must have asked for them.
int clef_logits(struct llama_context * context, const float ** logits, struct clef_message error) CLEF_NOEXCEPT;

struct clef_sampling {
    float temperature; // 0 takes the most probable token
    int32_t top_k;     // 0 for all
    float top_p;       // 1 for all
    bool is_seeded;    // if not, `seed` is chosen by chance
    uint32_t seed;
};

int clef_sampler_new(const struct clef_sampling * sampling, struct llama_sampler ** sampler,
                     struct clef_message error) CLEF_NOEXCEPT;
// Takes a token by the logits that clef_logits returns.
int clef_sample(struct llama_sampler * sampler, struct llama_context * context, llama_token * token,
                struct clef_message error) CLEF_NOEXCEPT;

int clef_sequence_copy(struct llama_context * context, llama_seq_id from, llama_seq_id to,
                       struct clef_message error) CLEF_NOEXCEPT;
int clef_sequence_remove(struct llama_context * context, llama_seq_id sequence, struct clef_message error) CLEF_NOEXCEPT;
// Removes what stands at `length` and beyond. CLEF_FAILED where the recurrent state is past it already.
int clef_sequence_truncate(struct llama_context * context, llama_seq_id sequence, llama_pos length,
                           struct clef_message error) CLEF_NOEXCEPT;

// A sequence's state as bytes, which only a context of the same model and parameters reads. `recurrent_only` leaves keys
// and values out; the recurrent state is also what ends the whole.
int clef_sequence_state_size(struct llama_context * context, llama_seq_id sequence, bool recurrent_only,
                             size_t * size, struct clef_message error) CLEF_NOEXCEPT;
// `written` receives the bytes written, at most `capacity`; 0 where that is too little.
int clef_sequence_state_get(struct llama_context * context, llama_seq_id sequence, bool recurrent_only,
                            uint8_t * buffer, size_t capacity, size_t * written, struct clef_message error) CLEF_NOEXCEPT;
// Replaces the sequence, or its recurrent state.
int clef_sequence_state_set(struct llama_context * context, llama_seq_id sequence, bool recurrent_only,
                            const uint8_t * bytes, size_t size, struct clef_message error) CLEF_NOEXCEPT;

// `count` receives the number of tokens, or minus the number needed when `capacity` is too small.
int clef_tokenize(const struct llama_vocab * vocab, const char * text, int32_t length, llama_token * tokens,
                  int32_t capacity, int32_t * count, struct clef_message error) CLEF_NOEXCEPT;

int clef_quantize(const char * input, const char * output, const struct llama_model_quantize_params * params,
                  struct clef_message error) CLEF_NOEXCEPT;

int clef_scheduler_new(ggml_backend_t * backends, int count, size_t graph_size, ggml_backend_sched_t * scheduler,
                       struct clef_message error) CLEF_NOEXCEPT;
// Allocates the graph; CLEF_FAILED when there is not enough memory.
int clef_scheduler_alloc(ggml_backend_sched_t scheduler, struct ggml_cgraph * graph, struct clef_message error) CLEF_NOEXCEPT;
int clef_scheduler_compute(ggml_backend_sched_t scheduler, struct ggml_cgraph * graph, struct clef_message error) CLEF_NOEXCEPT;

struct mtmd_context;

struct clef_vision_params {
    bool use_gpu;
    ggml_backend_dev_t device; // NULL for the first GPU
    int threads;
    enum llama_flash_attn_type flash_attention;
};

// Opens a projector for `model`, which must outlive it. Pictures are taken at the size they come in.
int clef_vision_new(const char * path, const struct llama_model * model, const struct clef_vision_params * params,
                    struct mtmd_context ** vision, struct clef_message error) CLEF_NOEXCEPT;
void clef_vision_free(struct mtmd_context * vision) CLEF_NOEXCEPT;

// Embeds one picture, or two frames that are seen as one: opaque RGB of `width * height * 3` bytes each. `rows` receives
// `count` floats; CLEF_FAILED where the projector makes another number of them.
int clef_vision_encode(struct mtmd_context * vision, const unsigned char * const * frames, size_t frame_count,
                       uint32_t width, uint32_t height, size_t row_width, float * rows, size_t count,
                       struct clef_message error) CLEF_NOEXCEPT;

// Sends the vision tower's log to the same place as llama.cpp's.
void clef_vision_set_log(ggml_log_callback callback) CLEF_NOEXCEPT;

// Sets how often the CPU backend's threads look again before they sleep where they wait for each other. False where that
// cannot be set, or was set by the user.
bool clef_set_barrier_spins(uint64_t spins) CLEF_NOEXCEPT;

// Sets the number of threads of a CPU backend, also when backends are loaded at run time.
void clef_backend_set_threads(ggml_backend_t backend, int threads) CLEF_NOEXCEPT;

#ifdef __cplusplus
}
#endif
