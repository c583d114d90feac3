/*
 * A question to a model, answered on two threads that yield to everybody else.
 * cc embed.c $(pkg-config --cflags --libs sereno) -o embed && ./embed model.gguf "Why is the sky blue?"
 */
#include <sereno/sereno.h>
#include <stdio.h>
#include <string.h>

static void print(void *ctx, const char *text, size_t size) {
    fwrite(text, 1, size, ctx);
}

int main(int argc, char **argv) {
    sereno_error err = {0};
    sereno_model *model = NULL;
    sereno_engine *engine = NULL;
    sereno_generator *generator = NULL;
    sereno_tokens prompt = {0};
    sereno_generation answer = {0};
    if (argc != 3) return fprintf(stderr, "usage: embed MODEL QUESTION\n"), 2;
    if (sereno_model_open(argv[1], &model, &err)) goto end;
    sereno_engine_options options = sereno_engine_defaults(model);
    options.n_threads = 2;
    if (sereno_engine_open(model, &options, &engine, &err)) goto end;
    const sereno_tokenizer *tokenizer = sereno_model_tokenizer(model);
    const sereno_speculation speculation = sereno_speculation_defaults(); /* n-grams; the text is the same without */
    if (sereno_generator_open(engine, tokenizer, 0, &speculation, &generator, &err) ||
        sereno_chat_message(tokenizer, "user", argv[2], strlen(argv[2]), &prompt, &err) ||
        sereno_chat_begin_answer(tokenizer, &prompt, &err)) {
        goto end;
    }
    const sereno_request request = {.prompt = prompt.ids,
                                    .n_prompt = (int32_t)prompt.n,
                                    .max_tokens = 200,
                                    .sampler = sereno_sampler_defaults(),
                                    .on_text = print,
                                    .ctx = stdout};
    if (!sereno_generate(generator, &request, &answer, &err)) putchar('\n');
end:
    if (err.code) fprintf(stderr, "embed: %s\n", err.message);
    sereno_generation_free(&answer);
    sereno_tokens_free(&prompt);
    sereno_generator_close(&generator);
    sereno_engine_close(&engine);
    sereno_model_close(&model);
    return err.code ? 1 : 0;
}
