/* An invented vendor's library, for the example plugin's reader: two cards, or the error in ACME_OPEN. */
#include <stdio.h>
#include <stdlib.h>

int acme_open(void) {
    const char *status = getenv("ACME_OPEN");
    return status ? atoi(status) : 0;
}

void acme_close(void) {}

void acme_version(char *text, unsigned size) { snprintf(text, size, "2.4.1"); }

int acme_card_count(unsigned *count) {
    *count = 2;
    return 0;
}

int acme_card_uuid(unsigned index, char *text, unsigned size) {
    snprintf(text, size, "ACME-1f0c-aa0%u", index + 1);
    return 0;
}

int acme_card_power(unsigned index, int *milliwatts) {
    *milliwatts = 61500 + 1000 * (int)index;
    return 0;
}

int acme_card_temperature(unsigned index, int *celsius) {
    *celsius = 31 + (int)index;
    printf("libacme: debug build\n"); /* libraries print; it must not disturb anything */
    fflush(stdout);
    return 0;
}

int acme_card_coolant_flow(unsigned index, int *percent) {
    (void)percent;
    return index == 0 ? 4 : 5; /* not supported; card lost */
}
