/* crema_list - intrusive doubly linked lists: a member of the struct links it, so linking never
 * fails and never allocates. Pure: pointers only.
 *
 *     typedef struct { int x; crema_link_t link; } item_t;
 *     crema_link_t list;
 *     crema_list_init(&list);
 *     crema_list_append(&list, &item->link);
 *     item_t *first = CREMA_LIST_FIRST(&list, item_t, link);
 */
#ifndef CREMA_LIST_H
#define CREMA_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The head of a list, or a link in one. All zero or initialized: not linked. */
typedef struct crema_link crema_link_t;
struct crema_link {
    crema_link_t *prev, *next;
};

/* The struct that holds `link` as `member`. */
#define CREMA_LIST_ITEM(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

/* NULL if the list is empty. */
#define CREMA_LIST_FIRST(list, type, member)                                                       \
    (crema_list_is_empty(list) ? NULL : CREMA_LIST_ITEM((list)->next, type, member))

static inline void
crema_list_init(crema_link_t *list)
{
    list->prev = list->next = list;
}

static inline bool
crema_list_is_empty(const crema_link_t *list)
{
    return list->next == list;
}

static inline bool
crema_list_is_linked(const crema_link_t *link)
{
    return link->next != NULL;
}

/* Does nothing if the link is already in a list. */
static inline void
crema_list_append(crema_link_t *list, crema_link_t *link)
{
    if (crema_list_is_linked(link))
        return;
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

/* Does nothing if the link is in no list. */
static inline void
crema_list_remove(crema_link_t *link)
{
    if (!crema_list_is_linked(link))
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

#endif
