//! Attention, and the two ways in which few or many queries read a long memory.
//!
//! Keys and values of every token are the plain way, whose cost hardly depends on the number of queries: two products
//! with a matrix of `width` x `width` for each token. A question with its options is a handful of queries on thousands
//! of tokens, so the matrices are applied to the queries instead: `(K m) q = m (K^T q)`, and a mixture of projected
//! tokens is the projected mixture. The bias of the keys adds the same to all scores of a query, which softmax ignores;
//! that of the values is added once, as weights sum to one.

use clef_llama::gguf::TensorType;
use clef_llama::graph::Tensor;

use crate::layout::Layout;
use crate::network::Network;

/// Attention scores of one piece take at most this much memory, unless that would make more than `MAX_PIECES` pieces.
const SCORE_BYTES: usize = 64 << 20;
const MAX_PIECES: usize = 128;

/// How much longer a multiply-add of the absorbing way takes: its factors are 32-bit floats from far caches, while many
/// tokens share those of a projection. Measured with `examples/answer.rs` at width 1024, where both ways take as long
/// for about 16 queries.
const ABSORBING_COST: usize = 4;

/// How many of `queries` attend at once to `keys`, so that scores (which grow with the product) stay bounded.
pub(crate) fn piece_rows(queries: usize, keys: usize, heads: usize) -> usize {
    let fitting = SCORE_BYTES / (keys * heads * size_of::<f32>());
    fitting.max(queries.div_ceil(MAX_PIECES)).clamp(1, queries)
}

/// How options and questions read the prompt. The answers are the same but for rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CrossAttention {
    /// Whichever takes less work for the number of tokens and of queries; what anything but a measurement wants.
    #[default]
    Cheapest,
    /// Keys and values of every token are computed.
    Projecting,
    /// Queries are carried to the tokens, and mixtures of tokens to values. Memory grows with width times queries.
    Absorbing,
}

impl CrossAttention {
    /// Whether `queries` on `tokens` go the absorbing way. A function of the prompt and the head alone, so that equal
    /// prompts get equal answers.
    fn absorbs(self, queries: usize, tokens: usize, layout: &Layout) -> bool {
        match self {
            Self::Projecting => false,
            Self::Absorbing => true,
            Self::Cheapest => {
                // Multiply-adds, both divided by the width.
                let projecting = 2 * tokens * (layout.width + queries);
                let absorbing = 2 * queries * (layout.width + tokens * layout.heads);
                absorbing * ABSORBING_COST < projecting
            }
        }
    }
}

/// What queries attend to.
#[derive(Clone, Copy)]
pub(crate) enum Source<'s> {
    /// Keys and values by head: `[d, n, heads]` and `[n, d, heads]`.
    Projected { keys: Tensor<'s>, values: Tensor<'s> },
    /// Rows as they are, `[width, n]`, and the matrices of keys (as 32-bit floats) and values by head, both
    /// `[width, d, heads]`.
    Absorbed { rows: Tensor<'s>, key_weight: Tensor<'s>, value_weight: Tensor<'s> },
}

impl<'s> Network<'_, 's> {
    /// The way for `queries` to attend to `memory`.
    pub(crate) fn cross_source(&self, name: &str, memory: Tensor<'s>, queries: usize) -> Source<'s> {
        if self.cross_attention.absorbs(queries, memory.shape()[1], self.layout) {
            self.absorbed(name, memory)
        } else {
            self.projected(name, memory)
        }
    }

    pub(crate) fn projected(&self, name: &str, from: Tensor<'s>) -> Source<'s> {
        let g = self.graph;
        let [width, rows, ..] = from.shape();
        let split = [width / self.layout.heads, self.layout.heads, rows, 1];
        let keys = g.permute(g.reshape(self.linear(&format!("{name}_k"), from), split), [0, 2, 1, 3]);
        let values = g.permute(g.reshape(self.linear(&format!("{name}_v"), from), split), [1, 2, 0, 3]);
        Source::Projected { keys, values: g.contiguous(values) }
    }

    fn absorbed(&self, name: &str, rows: Tensor<'s>) -> Source<'s> {
        let g = self.graph;
        let (width, heads) = (self.layout.width, self.layout.heads);
        let split = [width, width / heads, heads, 1];
        let mut key_weight = self.weight(&format!("{name}_k.weight"));
        if key_weight.kind() != TensorType::F32 {
            // Taking all rows is what turns any type of weights into floats.
            key_weight = g.get_rows(key_weight, g.indices((0..width as i32).collect()));
        }
        let value_weight = self.weight(&format!("{name}_v.weight"));
        Source::Absorbed {
            rows,
            key_weight: g.reshape(key_weight, split),
            value_weight: g.reshape(value_weight, split),
        }
    }

    pub(crate) fn attend(&self, name: &str, x: Tensor<'s>, source: Source<'s>) -> Tensor<'s> {
        let g = self.graph;
        let heads = self.layout.heads;
        let [width, rows, ..] = x.shape();
        let head_width = width / heads;
        let scale = 1.0 / (head_width as f32).sqrt();
        let queries = g.reshape(self.linear(&format!("{name}_q"), x), [head_width, heads, rows, 1]);
        let mixed = match source {
            Source::Projected { keys, values } => {
                let scores = g.mul_mat(keys, g.permute(queries, [0, 2, 1, 3]));
                g.mul_mat(values, g.softmax(scores, scale))
            }
            Source::Absorbed { rows: memory, key_weight, value_weight } => {
                let queries = g.outer_products(key_weight, g.permute(queries, [1, 2, 0, 3]));
                let scores = g.mul_mat(memory, g.reshape(queries, [width, rows * heads, 1, 1]));
                let mixed = g.outer_products(memory, g.transpose(g.softmax(scores, scale)));
                g.mul_mat(value_weight, g.reshape(mixed, [width, rows, heads, 1]))
            }
        };
        let mixed = g.contiguous(g.permute(mixed, [0, 2, 1, 3]));
        let mut mixed = g.reshape(mixed, [width, rows, 1, 1]);
        if let Source::Absorbed { .. } = source {
            mixed = g.add(mixed, self.weight(&format!("{name}_v.bias")));
        }
        self.linear(&format!("{name}_o"), mixed)
    }

    /// Applies `step` to `x` a few rows at a time and puts the results together again.
    pub(crate) fn by_pieces(&self, x: Tensor<'s>, keys: usize, step: impl Fn(Tensor<'s>) -> Tensor<'s>) -> Tensor<'s> {
        let rows = x.shape()[1];
        let piece = piece_rows(rows, keys, self.layout.heads);
        let mut whole: Option<Tensor<'s>> = None;
        for start in (0..rows).step_by(piece) {
            let part = step(self.graph.rows(x, start, piece.min(rows - start)));
            let joined = whole.map_or(part, |whole| self.graph.concat(whole, part, 1));
            // One piece is finished before the next begins, so that they share memory.
            self.graph.expand(joined);
            whole = Some(joined);
        }
        whole.expect("there is at least one row")
    }
}
