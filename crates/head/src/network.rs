//! The parts of the network, as graph operations. The reference is `JointSchemaHead` of the released checkpoints.

use clef_llama::graph::{Graph, Tensor};

use crate::layout::Layout;
use crate::weights::{Head, Named};

/// Attention scores of one piece take at most this much memory, unless that would make more than `MAX_PIECES` pieces.
const SCORE_BYTES: usize = 64 << 20;
const MAX_PIECES: usize = 128;

/// How many of `queries` attend at once to `keys`, so that scores (which grow with the product) stay bounded.
pub(crate) fn piece_rows(queries: usize, keys: usize, heads: usize) -> usize {
    let fitting = SCORE_BYTES / (keys * heads * size_of::<f32>());
    fitting.max(queries.div_ceil(MAX_PIECES)).clamp(1, queries)
}

/// Graph building with the head's weights at hand.
pub(crate) struct Network<'g, 's> {
    pub(crate) graph: &'g Graph<'s>,
    weights: Named<'s>,
    layout: &'s Layout,
}

/// Keys and values of an attention, split by head: `[d, n, heads]` and `[n, d, heads]`.
#[derive(Clone, Copy)]
struct KeysValues<'s> {
    keys: Tensor<'s>,
    values: Tensor<'s>,
}

impl<'g, 's> Network<'g, 's> {
    pub(crate) fn new(graph: &'g Graph<'s>, layout: &'s Layout, weights: Named<'s>) -> Self {
        Self { graph, weights, layout }
    }

    pub(crate) fn weight(&self, name: &str) -> Tensor<'s> {
        self.weights.get(name)
    }

    pub(crate) fn project(&self, name: &str, x: Tensor<'s>) -> Tensor<'s> {
        self.graph.mul_mat(self.weight(&format!("decision.proj_{name}.weight")), x)
    }

    pub(crate) fn norm(&self, name: &str, x: Tensor<'s>) -> Tensor<'s> {
        let (weight, bias) = (self.weight(&format!("{name}.weight")), self.weight(&format!("{name}.bias")));
        self.graph.layer_norm(x, weight, bias, self.layout.epsilon)
    }

    fn linear(&self, name: &str, x: Tensor<'s>) -> Tensor<'s> {
        let product = self.graph.mul_mat(self.weight(&format!("{name}.weight")), x);
        self.graph.add(product, self.weight(&format!("{name}.bias")))
    }

    fn keys_values(&self, name: &str, from: Tensor<'s>) -> KeysValues<'s> {
        let g = self.graph;
        let [width, rows, ..] = from.shape();
        let split = [width / self.layout.heads, self.layout.heads, rows, 1];
        let keys = g.permute(g.reshape(self.linear(&format!("{name}_k"), from), split), [0, 2, 1, 3]);
        let values = g.permute(g.reshape(self.linear(&format!("{name}_v"), from), split), [1, 2, 0, 3]);
        KeysValues { keys, values: g.contiguous(values) }
    }

    fn attend(&self, name: &str, x: Tensor<'s>, kv: KeysValues<'s>) -> Tensor<'s> {
        let g = self.graph;
        let [width, rows, ..] = x.shape();
        let head_width = width / self.layout.heads;
        let queries = g.reshape(self.linear(&format!("{name}_q"), x), [head_width, self.layout.heads, rows, 1]);
        let scores = g.mul_mat(kv.keys, g.permute(queries, [0, 2, 1, 3]));
        let scores = g.softmax(scores, 1.0 / (head_width as f32).sqrt());
        let mixed = g.permute(g.mul_mat(kv.values, scores), [0, 2, 1, 3]);
        let mixed = g.reshape(g.contiguous(mixed), [width, rows, 1, 1]);
        self.linear(&format!("{name}_o"), mixed)
    }

    fn feed_forward(&self, block: usize, x: Tensor<'s>) -> Tensor<'s> {
        let inner = self.linear(&format!("dec.blk.{block}.ffn_up"), self.norm(&format!("dec.blk.{block}.ffn_norm"), x));
        self.linear(&format!("dec.blk.{block}.ffn_down"), self.graph.gelu(inner))
    }

    /// Applies `step` to `x` a few rows at a time and puts the results together again.
    fn by_pieces(&self, x: Tensor<'s>, keys: usize, step: impl Fn(Tensor<'s>) -> Tensor<'s>) -> Tensor<'s> {
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

    /// Options read the prompt; they do not see each other.
    pub(crate) fn routing_block(&self, block: usize, options: Tensor<'s>, memory: Tensor<'s>) -> Tensor<'s> {
        let name = format!("dec.blk.{block}.cross_attn");
        let kv = self.keys_values(&name, self.norm(&format!("{name}_norm_kv"), memory));
        self.by_pieces(options, memory.shape()[1], |options| {
            let read = self.attend(&name, self.norm(&format!("{name}_norm"), options), kv);
            let options = self.graph.add(options, read);
            self.graph.add(options, self.feed_forward(block, options))
        })
    }

    /// Questions read each other, then the prompt.
    pub(crate) fn joint_block(&self, block: usize, fields: Tensor<'s>, memory: Tensor<'s>) -> Tensor<'s> {
        let g = self.graph;
        let own = format!("dec.blk.{block}.attn");
        let normed = self.norm(&format!("{own}_norm"), fields);
        let kv = self.keys_values(&own, normed);
        let read = self.by_pieces(normed, normed.shape()[1], |normed| self.attend(&own, normed, kv));
        let fields = g.add(fields, read);

        let cross = format!("dec.blk.{block}.cross_attn");
        let kv = self.keys_values(&cross, memory);
        self.by_pieces(fields, memory.shape()[1], |fields| {
            let read = self.attend(&cross, self.norm(&format!("{cross}_norm"), fields), kv);
            let fields = g.add(fields, read);
            g.add(fields, self.feed_forward(block, fields))
        })
    }

    /// One logit per option, from its own vector and that of its question.
    pub(crate) fn logits(&self, inputs: Scored<'s>) -> Tensor<'s> {
        let g = self.graph;
        // PyTorch's default in `normalize`.
        let epsilon = 1e-12;
        let scale = |index| g.element(self.weight("decision.scales"), index);

        let anchor = g.normalize(g.add(inputs.question, inputs.global), epsilon);
        let anchor = g.get_rows(anchor, inputs.owners);
        let prior = g.sum_rows(g.mul(g.normalize(inputs.lexical, epsilon), anchor));

        let option = self.norm("decision.option_norm", inputs.options);
        let field = g.get_rows(self.norm("decision.field_norm", inputs.fields), inputs.owners);
        let cosine = g.sum_rows(g.mul(g.normalize(field, epsilon), g.normalize(option, epsilon)));
        let features = g.concat(field, option, 0);
        let features = g.concat(features, g.mul(field, option), 0);
        let features = g.concat(features, g.abs(g.sub(field, option)), 0);
        let residual = self.linear("decision.scorer_out", g.gelu(self.linear("decision.scorer", features)));

        let joint = g.add(g.mul(cosine, scale(1)), residual);
        g.add(g.mul(prior, scale(0)), g.mul(joint, scale(2)))
    }
}

/// What the score of the options is computed from.
#[derive(Clone, Copy)]
pub(crate) struct Scored<'s> {
    /// `[hidden, questions]`: mean hidden state of each question's text.
    pub(crate) question: Tensor<'s>,
    /// `[hidden, 1]`: hidden state of the last token.
    pub(crate) global: Tensor<'s>,
    /// `[hidden, options]`: mean lexical row of each option's tokens.
    pub(crate) lexical: Tensor<'s>,
    /// `[width, options]`.
    pub(crate) options: Tensor<'s>,
    /// `[width, questions]`.
    pub(crate) fields: Tensor<'s>,
    /// The question of each option.
    pub(crate) owners: Tensor<'s>,
}

impl Head {
    /// An upper bound on the tensors of the answering graph.
    pub(crate) fn graph_size(&self, tokens: usize, questions: usize, options: usize) -> usize {
        let pieces = |queries: usize, keys: usize| queries.div_ceil(piece_rows(queries, keys, self.layout.heads));
        // Tensors of one piece and of one block around its pieces, rounded up from the functions above.
        let (piece, block) = (48, 48);
        let routing = self.layout.routing_blocks * (block + piece * pieces(options, tokens));
        let joint =
            self.layout.joint_blocks * (2 * block + piece * (pieces(questions, tokens) + pieces(questions, questions)));
        routing + joint + 128
    }
}
