/* Which fields there are, and of what type. */
#include "fakedcgm.h"

static const struct { u16 first, last; char type; } ranges[] = {FIELDS};
static struct field_meta known[1600];
static int initialised;

API R DcgmFieldsInit(void) {
    for (size_t i = 0; !initialised && i < sizeof ranges / sizeof *ranges; i++)
        for (u16 id = ranges[i].first; id <= ranges[i].last; id++) {
            known[id] = (struct field_meta){.id = id, .type = ranges[i].type, .size = 8, .scope = id < 40 ? 1 : 2, .level = 1};
            snprintf(known[id].tag, sizeof known[id].tag, "field_%d", id);
        }
    initialised = 1;
    return OK;
}
API R DcgmFieldsTerm(void) { initialised = 0; return OK; }
API const struct field_meta *DcgmFieldGetById(u16 id) {
    return initialised && id && id < sizeof known / sizeof *known && known[id].id ? &known[id] : NULL;
}
